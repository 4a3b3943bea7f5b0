package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

const shopWeb = "Alarm/shop/web"

// statusOf returns the counts of a subject that was adopted as "uid".
func statusOf(t *testing.T, s *Store, subject string) StatusCounts {
	t.Helper()
	must(t, s.Statuses.Adopt(context.Background(), subject, "uid", StatusCounts{}))
	counts, adopted, ok := s.Statuses.Counts(subject, "uid")
	if !adopted || !ok {
		t.Fatalf("%s: adopted %t, counted %t", subject, adopted, ok)
	}
	return counts
}

// of returns n entries of the alarm shopWeb.
func of(receiver string, from, n int) []Entry {
	all := entries(receiver, from, n)
	for i := range all {
		all[i].Alarm = shopWeb
	}
	return all
}

func TestWhatEndsIsCountedInTheSameTransaction(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	clk := testingclock.NewFakePassiveClock(day.Add(time.Hour))
	s := open(t, dir, WithClock(clk))
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 20}, Entries: append(of("r", 1, 10), of("deleted", 11, 2)...), Status: map[string]StatusCounts{shopWeb: {Matched: 12, LastMatch: day}, "r": {Matched: 10}}}))
	_, err := s.Finish(ctx, prepare(t, s, "r", 3), Outcome{}) // delivered
	must(t, err)
	refused := prepare(t, s, "r", 2)
	_, err = s.Finish(ctx, refused, Outcome{GivenUp: true})
	must(t, err)
	_, err = s.Finish(ctx, refused, Outcome{GivenUp: true}) // again
	must(t, err)
	_, err = s.DropOlderThan(ctx, "r", MainLane, day.Add(time.Minute))
	must(t, err)
	_, err = s.DropReceiver(ctx, "deleted")
	must(t, err)
	must(t, s.Close())

	s = open(t, dir) // killed
	must(t, s.Confirm(ctx))
	want := StatusCounts{Matched: 12, Delivered: 3, Dropped: 9, LastMatch: day, LastDelivery: clk.Now()}
	if diff := cmp.Diff(want, statusOf(t, s, shopWeb)); diff != "" {
		t.Error(diff)
	}
	want = StatusCounts{Matched: 10, Delivered: 3, Dropped: 7, LastDelivery: clk.Now()}
	if diff := cmp.Diff(want, statusOf(t, s, "r")); diff != "" {
		t.Error(diff)
	}
	if _, _, ok := s.Statuses.Counts("deleted", "uid"); ok {
		t.Error("a deleted receiver is counted, so that its successor would have its counts")
	}
}

func TestABatchThatFailsCountsNothing(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Confirm(ctx))
	commit(t, s, "r", 5, 1)
	if err := s.Commit(ctx, Change{Events: &EventStep{Position: 1}, Status: map[string]StatusCounts{shopWeb: {Matched: 1}}}); err == nil {
		t.Fatal("a batch before the position was committed")
	}
	if _, _, ok := s.Statuses.Counts(shopWeb, ""); ok {
		t.Error("it was counted")
	}
}

func TestCountsAreAdoptedOnce(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir)
	must(t, s.Confirm(ctx))
	must(t, s.Statuses.Adopt(ctx, shopWeb, "uid", StatusCounts{Matched: 100})) // nothing was counted
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 1}, Status: map[string]StatusCounts{shopWeb: {Matched: 1}}}))
	for range 2 {
		must(t, s.Statuses.Adopt(ctx, shopWeb, "uid", StatusCounts{Matched: 100}))
		must(t, s.Close())
		s = open(t, dir)
		must(t, s.Confirm(ctx))
	}
	if got, adopted, _ := s.Statuses.Counts(shopWeb, "uid"); got.Matched != 101 || !adopted {
		t.Errorf("matched %d, want 101; adopted %t", got.Matched, adopted)
	}
	if got := s.Statuses.TakeCounted(); len(got) != 1 || got[0] != shopWeb {
		t.Errorf("after a start, %v changed: want all, because the process can have been killed before it wrote a status", got)
	}
	if got := s.Statuses.TakeCounted(); len(got) != 0 {
		t.Errorf("taken twice: %v", got)
	}
	must(t, s.Reset(ctx, "another", 0))
	if _, _, ok := s.Statuses.Counts(shopWeb, "uid"); ok {
		t.Error("there are counts after a reset")
	}
}
