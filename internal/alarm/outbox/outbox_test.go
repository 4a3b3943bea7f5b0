package outbox

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPendingReturnsWhatWasCommittedOldestFirst(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	want := Entry{
		ID: 1, Receiver: "r", Alarm: "a", Key: "k", Position: 5, Count: 2,
		CreatedAt: day.Add(time.Microsecond), Payload: []byte("payload"),
	}
	must(t, l.Commit(ctx, Batch{Position: 5, Entries: []Entry{want}}))
	commit(t, l, "r", 6, 3)
	commit(t, l, "other", 9, 1)

	got, err := l.Pending(ctx, "r", 0, 1)
	must(t, err)
	if diff := cmp.Diff([]Entry{want}, got); diff != "" {
		t.Error(diff)
	}
	got, err = l.Pending(ctx, "r", want.ID, 2)
	must(t, err)
	if len(got) != 2 || got[0].Position != 6 || got[1].Position != 7 {
		t.Errorf("after the first one: got %v, want positions 6 and 7", got)
	}
}

func TestEntryOfSameReceiverAndKeyIsIgnoredWhileOneIsThere(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	commit(t, l, "r", 1, 1)
	commit(t, l, "other", 1, 1)
	first, err := l.Pending(ctx, "r", 0, 10)
	must(t, err)

	commit(t, l, "r", 1, 1)
	again, err := l.Pending(ctx, "r", 0, 10)
	must(t, err)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
	if got := l.Backlog("r"); got.Entries != 1 {
		t.Errorf("backlog: got %d entries, want 1", got.Entries)
	}
}

func TestCommitThatFailsChangesNothing(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	commit(t, l, "r", 1, 3)
	before := l.Snapshot()

	broken := Batch{Position: 9, Entries: entries("r", 4, 2), Counts: []EventCount{{UID: "e"}}}
	broken.Entries[1].Position = math.MaxUint64 // more than SQLite can store
	if err := l.Commit(ctx, broken); err == nil {
		t.Fatal("the batch was committed, want an error")
	}
	if diff := cmp.Diff(before, l.Snapshot()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3}, pending(t, l, "r")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{}, allCounts(t, l)); diff != "" {
		t.Error(diff)
	}
}

func TestCommitRefusesToGoBackwards(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Commit(ctx, Batch{Position: 7}))
	if err := l.Commit(ctx, Batch{Position: 6, Entries: entries("r", 6, 1)}); !errors.Is(err, ErrBackwards) {
		t.Errorf("got %v, want ErrBackwards", err)
	}
	if got := l.Snapshot(); got.Position != 7 || len(got.Backlogs) != 0 {
		t.Errorf("got %+v, want position 7 and no backlog", got)
	}
	must(t, l.Replay(ctx, "", 3, DeliveredOffsets{}))
	must(t, l.Commit(ctx, Batch{Position: 6}))
}

func TestDropOlderThanStopsAtTheFirstYoungEntryAndLeavesFrozenOnes(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	batch := Batch{Position: 5, Entries: entries("r", 1, 5)}
	for i := range batch.Entries {
		batch.Entries[i].CreatedAt = day.Add(time.Duration(i) * time.Hour)
	}
	must(t, l.Commit(ctx, batch))
	freeze(t, l, "r", 1)

	tally, err := l.DropOlderThan(ctx, "r", day.Add(3*time.Hour))
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 2}, tally); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{4, 5}, pending(t, l, "r")); diff != "" {
		t.Error(diff)
	}
	if got := l.Backlog("r"); got != (Backlog{Entries: 3, Lowest: 1}) {
		t.Errorf("backlog: got %+v, want 3 entries from 1: the frozen one counts", got)
	}
}

func TestDropAtOrBelowDropsByReceiverAndDissolvesBrokenAttempts(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	for _, receiver := range []string{"behind", "broken", "whole", "done"} {
		must(t, l.Replay(ctx, "", 0, DeliveredOffsets{}))
		commit(t, l, receiver, 1, 6)
	}
	freeze(t, l, "broken", 5)
	whole := freeze(t, l, "whole", 3)

	tally, err := l.DropAtOrBelow(ctx, 4, map[string]uint64{"behind": 2, "whole": 0, "done": 6})
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 2 + 4 + 0 + 6}, tally); diff != "" {
		t.Error(diff)
	}
	want := map[string][]uint64{"behind": {3, 4, 5, 6}, "broken": {5, 6}, "whole": {4, 5, 6}, "done": {}}
	for receiver, want := range want {
		if diff := cmp.Diff(want, pending(t, l, receiver)); diff != "" {
			t.Errorf("%s: %s", receiver, diff)
		}
	}
	if got, err := l.Prepared(ctx, "whole"); err != nil || cmp.Diff(whole, got) != "" {
		t.Errorf("the attempt that lost nothing: got %v, %v", got, err)
	}
}

func TestDropReceiverDropsAllItHas(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	commit(t, l, "r", 1, 2*chunk+500)
	commit(t, l, "other", 9_000, 1)
	freeze(t, l, "r", chunk+1)

	tally, err := l.DropReceiver(ctx, "r")
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 2*chunk + 500}, tally); diff != "" {
		t.Error(diff)
	}
	if got, err := l.Prepared(ctx, "r"); got != nil || err != nil {
		t.Errorf("frozen: got %v, %v, want none", got, err)
	}
	if diff := cmp.Diff(map[string]Backlog{"other": {Entries: 1, Lowest: 9_000}}, l.Snapshot().Backlogs); diff != "" {
		t.Error(diff)
	}
}
