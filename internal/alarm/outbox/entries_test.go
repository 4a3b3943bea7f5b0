package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPendingReturnsEntriesOldestFirst(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	want := Entry{
		ID: 1, Receiver: "r", Alarm: "a", Key: "k", Position: 5, Count: 2,
		CreatedAt: day.Add(time.Microsecond), Payload: []byte("payload"),
	}
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 5}, Entries: []Entry{want}}))
	commit(t, s, "r", 6, 3)
	commit(t, s, "other", 9, 1)

	got, err := s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, Limit: 1})
	must(t, err)
	if diff := cmp.Diff([]Entry{want}, got); diff != "" {
		t.Error(diff)
	}
	got, err = s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, After: want.ID, Limit: 2})
	must(t, err)
	if len(got) != 2 || got[0].Position != 6 || got[1].Position != 7 {
		t.Errorf("after the first one: got %v, want positions 6 and 7", got)
	}
}

func TestAnEntryWithAnExistingKeyIsIgnored(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	commit(t, s, "r", 1, 1)
	commit(t, s, "other", 1, 1)
	first, err := s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, Limit: 10})
	must(t, err)

	commit(t, s, "r", 1, 1)
	again, err := s.Pending(ctx, Query{Receiver: "r", Lane: MainLane, Limit: 10})
	must(t, err)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	if got := s.Backlog("r"); got.Entries != 1 {
		t.Errorf("backlog: got %d entries, want 1", got.Entries)
	}
}

func TestDropOlderThanStopsAtTheFirstYoungEntryAndKeepsPreparedOnes(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	batch := Change{Events: &EventStep{Position: 5}, Entries: entries("r", 1, 5)}
	for i := range batch.Entries {
		batch.Entries[i].CreatedAt = day.Add(time.Duration(i) * time.Hour)
	}
	must(t, s.Commit(ctx, batch))
	prepare(t, s, "r", 1)

	counts, err := s.DropOlderThan(ctx, "r", MainLane, day.Add(3*time.Hour))
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 2}, counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{4, 5}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
	if got := s.Backlog("r"); got != (Backlog{Entries: 3, Lowest: 4}) || waitingEvents(t, s)["r"]["1"] != 1 {
		t.Errorf("backlog: got %+v, want 3 entries: the prepared one is listed by key", got)
	}
}

func TestDropDeliveredDropsByReceiverAndRemovesBrokenAttempts(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	for _, receiver := range []string{"behind", "broken", "whole", "done"} {
		must(t, s.Replay(ctx, Replay{}))
		commit(t, s, receiver, 1, 6)
	}
	prepare(t, s, "broken", 5)
	whole := prepare(t, s, "whole", 3)

	must(t, s.drop(ctx, offsets{"": {Position: 4, Behind: map[string]uint64{"behind": 2, "whole": 0, "done": 6}}}))
	want := map[string][]uint64{"behind": {3, 4, 5, 6}, "broken": {5, 6}, "whole": {4, 5, 6}, "done": {}}
	for receiver, want := range want {
		if diff := cmp.Diff(want, pending(t, s, receiver)); diff != "" {
			t.Errorf("%s: %s", receiver, diff)
		}
	}
	if got, err := s.Prepared(ctx, "whole", MainLane); err != nil || cmp.Diff(whole, got) != "" {
		t.Errorf("the attempt that lost nothing: got %v, %v", got, err)
	}
}

func TestDropReceiverRemovesEverythingOfTheReceiver(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	commit(t, s, "r", 1, 2*chunk+500)
	commit(t, s, "other", 9_000, 1)
	prepare(t, s, "r", MaxEntries)

	counts, err := s.DropReceiver(ctx, "r")
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 2*chunk + 500}, counts); diff != "" {
		t.Error(diff)
	}
	if got, err := s.Prepared(ctx, "r", MainLane); got != nil || err != nil {
		t.Errorf("prepared: got %v, %v, want none", got, err)
	}
	if diff := cmp.Diff(map[string]Backlog{"other": {Entries: 1, Lowest: 9_000}}, s.Snapshot().Backlogs); diff != "" {
		t.Error(diff)
	}
}
