package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

func TestAPreparedMessageIsTheSameAfterARestart(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir, WithClock(testingclock.NewFakePassiveClock(day)))
	commit(t, s, "r", 1, 5)
	want := prepare(t, s, "r", 3)
	if len(want.Entries) != 3 || want.Count != 3 || want.Oldest != day || want.FirstTried != day {
		t.Errorf("got %+v, want 3 entries, 3 occurrences, both times %v", want, day)
	}
	must(t, s.Close())

	got, err := open(t, dir).Prepared(ctx, "r", MainLane)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPreparedEntriesAreNotPending(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	commit(t, s, "r", 1, 4)
	prepare(t, s, "r", 2)
	if diff := cmp.Diff([]uint64{3, 4}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Prepare(ctx, "r", MainLane, []int64{4}, "second", nil); !errors.Is(err, ErrUnfinished) {
		t.Errorf("a second attempt: got %v, want ErrFrozen", err)
	}
}

func TestPrepareWithoutEntriesFails(t *testing.T) {
	s := open(t, t.TempDir())
	if _, err := s.Prepare(context.Background(), "r", MainLane, []int64{4}, "key", nil); !errors.Is(err, ErrNothingPending) {
		t.Errorf("got %v, want ErrNothingPending", err)
	}
}

func TestAcknowledgeRemovesOnlyTheEntriesOfTheMessage(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	batch := Change{Events: &EventStep{Position: 3}, Entries: entries("r", 1, 3)}
	batch.Entries[0].Alarm, batch.Entries[0].Count = "Alarm/shop/other", 7
	must(t, s.Commit(ctx, batch))
	a := prepare(t, s, "r", 3)
	commit(t, s, "r", 4, 1)
	commit(t, s, "other", 5, 1)

	counts, err := s.Finish(ctx, a, Outcome{})
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/other": 7, "Alarm/shop/rollouts": 2}, counts); diff != "" {
		t.Error(diff)
	}
	want := map[string]Backlog{"r": {Entries: 1, Lowest: 4}, "other": {Entries: 1, Lowest: 5}}
	if diff := cmp.Diff(want, s.Snapshot().Backlogs); diff != "" {
		t.Error(diff)
	}

	counts, err = s.Finish(ctx, a, Outcome{})
	must(t, err)
	if diff := cmp.Diff(Counts{}, counts); diff != "" {
		t.Errorf("acknowledged twice: %s", diff)
	}
	if diff := cmp.Diff([]uint64{4}, pending(t, s, "r")); diff != "" {
		t.Errorf("acknowledged twice: %s", diff)
	}
}

func TestAMessageHasALimitOfEntries(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	commit(t, s, "r", 1, MaxEntries+1)
	all, err := s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, Limit: MaxEntries + 1})
	must(t, err)
	if a, err := s.Prepare(ctx, "r", MainLane, idsOf(all), "key", nil); a != nil || err == nil {
		t.Errorf("prepared %d entries", len(all))
	}
	counts, err := s.Finish(ctx, prepare(t, s, "r", MaxEntries), Outcome{})
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": MaxEntries}, counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{MaxEntries + 1}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
}

func TestAnAcknowledgedMessageIsNotSentAgainAfterACrash(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1, 4)
	_, err := s.Finish(ctx, prepare(t, s, "r", 3), Outcome{})
	must(t, err)
	must(t, s.Close())
	s = open(t, dir)
	if got, err := s.Prepared(ctx, "r", MainLane); got != nil || err != nil {
		t.Errorf("prepared: got %v, %v, want none", got, err)
	}
	if diff := cmp.Diff([]uint64{4}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
}

func TestEntriesOfADigestCanBeInspected(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	clk := testingclock.NewFakePassiveClock(day)
	s := open(t, dir, WithClock(clk))
	commit(t, s, "r", 1, 4)
	digest := prepare(t, s, "r", 3)
	clk.SetTime(day.Add(time.Minute))
	_, err := s.Finish(ctx, digest, Outcome{KeepEntries: true})
	must(t, err)
	_, err = s.Finish(ctx, prepare(t, s, "r", 1), Outcome{})
	must(t, err)

	got := inspectReceiver(t, dir, "r", 0)
	if got.Entries != 0 || len(got.Waiting) != 0 {
		t.Errorf("%+v waits", got.Waiting)
	}
	var want []DigestedEntry
	for _, id := range []int64{3, 2, 1} {
		want = append(want, DigestedEntry{
			Entry:  Entry{ID: id, Receiver: "r", Alarm: "Alarm/shop/rollouts", Count: 1, CreatedAt: day, Payload: payload},
			Digest: "key", Delivered: true, EndedAt: day.Add(time.Minute),
		})
	}
	if diff := cmp.Diff(want, got.Digested); diff != "" {
		t.Error(diff)
	}

	_, err = s.DropReceiver(ctx, "r")
	must(t, err)
	if got := inspectReceiver(t, dir, "r", 0); len(got.Digested) > 0 {
		t.Error("it is kept though the receiver is gone")
	}
}

func TestInspectShowsThatADigestWasGivenUp(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1, 2)
	_, err := s.Finish(context.Background(), prepare(t, s, "r", 2), Outcome{GivenUp: true, KeepEntries: true})
	must(t, err)
	got := inspectReceiver(t, dir, "r", 0)
	if len(got.Digested) != 2 || got.Digested[0].Delivered {
		t.Errorf("got %+v", got.Digested)
	}
}

func TestEntriesOfDigestsAreKeptUpToALimit(t *testing.T) {
	skipIfShort(t)
	ctx, dir := context.Background(), t.TempDir()
	clk := testingclock.NewFakePassiveClock(day)
	s := open(t, dir, WithClock(clk))
	settle := func(receiver string, from, n int) {
		t.Helper()
		commit(t, s, receiver, from, n)
		for ; n > 0; n -= MaxEntries {
			_, err := s.Finish(ctx, prepare(t, s, receiver, min(n, MaxEntries)), Outcome{KeepEntries: true})
			must(t, err)
		}
	}
	settle("r", 1, 2*chunk+500)
	got := inspectReceiver(t, dir, "r", 0).Digested
	if len(got) != maxDigested || got[0].ID != 2*chunk+500 || got[maxDigested-1].ID != chunk+501 {
		t.Errorf("kept %d, from %d on, of the newest %d", len(got), got[len(got)-1].ID, maxDigested)
	}
	settle("r", 3_001, 10)
	if got := inspectReceiver(t, dir, "r", 0).Digested; len(got) != maxDigested || got[0].ID != 2*chunk+510 {
		t.Errorf("kept %d, %d the newest", len(got), got[0].ID)
	}

	clk.SetTime(day.Add(digestedLife))
	settle("other", 4_001, 2)
	if got := inspectReceiver(t, dir, "r", 0).Digested; len(got) != 0 {
		t.Errorf("%d are kept after a day", len(got))
	}
	for i := range maxDigestedAll/maxDigested + 1 {
		clk.SetTime(clk.Now().Add(time.Second))
		settle(fmt.Sprint("flooded-", i), 5_000+i*maxDigested, maxDigested)
	}
	all := 0
	v, err := Inspect(ctx, dir, 0, everyReceiver)
	must(t, err)
	for _, o := range v.Receivers {
		all += len(o.Digested)
	}
	if all == 0 || all > maxDigestedAll {
		t.Errorf("%d are kept of all receivers", all)
	}
}
