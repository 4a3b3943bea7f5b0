package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

func TestAttemptSurvivesAsItWasFrozen(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir, WithClock(testingclock.NewFakePassiveClock(day)))
	commit(t, l, "r", 1, 5)
	want := freeze(t, l, "r", 3)
	if want.Entries != 3 || want.Count != 3 || want.Oldest != day || want.FirstTried != day {
		t.Errorf("got %+v, want 3 entries, 3 occurrences, both times %v", want, day)
	}
	must(t, l.Close())

	got, err := open(t, dir).Prepared(ctx, "r")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFrozenEntriesAreNotPending(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	commit(t, l, "r", 1, 4)
	freeze(t, l, "r", 2)
	if diff := cmp.Diff([]uint64{3, 4}, pending(t, l, "r")); diff != "" {
		t.Error(diff)
	}
	if _, err := l.Prepare(ctx, "r", 4, "second", nil); !errors.Is(err, ErrUnacknowledged) {
		t.Errorf("a second attempt: got %v, want ErrFrozen", err)
	}
}

func TestFreezeWithoutEntriesIsRefused(t *testing.T) {
	l := open(t, t.TempDir())
	if _, err := l.Prepare(context.Background(), "r", 4, "key", nil); !errors.Is(err, ErrNothingPending) {
		t.Errorf("got %v, want ErrNothingPending", err)
	}
}

func TestSettleRemovesTheAttemptsEntriesAndNoOthers(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	batch := Batch{Position: 3, Entries: entries("r", 1, 3)}
	batch.Entries[0].Alarm, batch.Entries[0].Count = "Alarm/shop/other", 7
	must(t, l.Commit(ctx, batch))
	a := freeze(t, l, "r", 3)
	commit(t, l, "r", 4, 1)
	commit(t, l, "other", 5, 1)

	tally, err := l.Acknowledge(ctx, a)
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/other": 7, "Alarm/shop/rollouts": 2}, tally); diff != "" {
		t.Error(diff)
	}
	want := map[string]Backlog{"r": {Entries: 1, Lowest: 4}, "other": {Entries: 1, Lowest: 5}}
	if diff := cmp.Diff(want, l.Snapshot().Backlogs); diff != "" {
		t.Error(diff)
	}

	tally, err = l.Acknowledge(ctx, a)
	must(t, err)
	if diff := cmp.Diff(Counts{}, tally); diff != "" {
		t.Errorf("settled twice: %s", diff)
	}
	if diff := cmp.Diff([]uint64{4}, pending(t, l, "r")); diff != "" {
		t.Errorf("settled twice: %s", diff)
	}
}

func TestSettleOfALargeDigestIsWhole(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	commit(t, l, "r", 1, 3*chunk+1)
	tally, err := l.Acknowledge(ctx, freeze(t, l, "r", 3*chunk))
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 3 * chunk}, tally); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{3*chunk + 1}, pending(t, l, "r")); diff != "" {
		t.Error(diff)
	}
	freeze(t, l, "r", 1)
}

// A crash between two chunks leaves an attempt that was delivered: sending it
// again would be a duplicate.
func TestSettleThatACrashInterruptedIsNotSentAgain(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1, 2*chunk)
	a := freeze(t, l, "r", 2*chunk-1)
	must(t, l.write(ctx, "settling the first chunk", func(ctx context.Context, tx *tx) error {
		_, _, err := tx.acknowledge(ctx, a, time.Time{})
		return err
	}))
	if got, err := l.Prepared(ctx, "r"); got != nil || err != nil {
		t.Errorf("frozen: got %v, %v, want none", got, err)
	}
	if diff := cmp.Diff([]uint64{2 * chunk}, pending(t, l, "r")); diff != "" {
		t.Error(diff)
	}
	must(t, l.Close())

	l = open(t, dir)
	if got := l.Backlog("r"); got != (Backlog{Entries: 1, Lowest: 2 * chunk}) {
		t.Errorf("after opening again: got %+v, want the one entry that was not frozen", got)
	}
	freeze(t, l, "r", 1)
}
