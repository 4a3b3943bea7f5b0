package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// newLeader returns a Pipeline with this outbox that finds the API server at a position.
func newLeader(store *outbox.Store, stored CheckpointStore, position at) *Pipeline {
	return New(Config{
		Source: position, ClusterUID: "cluster", Outbox: store, Checkpoint: stored, Alarms: NewAlarms(),
		Dispatcher: noop{}, Enricher: noop{}, Reporter: noop{}, LoadAlarms: func(context.Context) error { return nil }, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
}

// failing is a checkpoint whose next writes fail, after they were stored if lost is set.
type failing struct {
	memoryCheckpoint
	reads, writes int
	lost          bool
}

func (f *failing) Read(ctx context.Context) (checkpoint.Checkpoint, bool, error) {
	if f.reads--; f.reads >= 0 {
		return checkpoint.Checkpoint{}, false, errors.New("the API server does not answer")
	}
	return f.memoryCheckpoint.Read(ctx)
}

func (f *failing) Write(ctx context.Context, next checkpoint.Checkpoint) error {
	if f.writes--; f.writes >= 0 {
		if f.lost {
			_ = f.memoryCheckpoint.Write(ctx, next)
		}
		return errors.New("the API server does not answer")
	}
	return f.memoryCheckpoint.Write(ctx, next)
}

// A process that is killed before its first Event, or during its takeover, must not lose what comes
// after its begin.
func TestTheFirstStartBeginsWhereItBeganAlsoAfterAKill(t *testing.T) {
	for name, stored := range map[string]*failing{
		"killed after the takeover":             {},
		"the checkpoint was not written":        {writes: 1},
		"the answer to the checkpoint was lost": {writes: 1, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for position, fails := at(100), stored.writes > 0; position < 103; position++ {
				store, err := outbox.Open(t.Context(), dir)
				must(t, err)
				start, err := newLeader(store, stored, position).takeOver(t.Context())
				if (err != nil) != fails {
					t.Errorf("takeover at %d: %v", position, err)
				}
				if got := store.State().Position; got != 100 || !fails && start.Position != 100 {
					t.Errorf("at %d, the stored position is %d and the start is at %d, want 100", position, got, start.Position)
				}
				fails = false
				must(t, store.Close())
			}
		})
	}
}

func TestAReplicaWithoutADiskBeginsWhereTheFirstLeaderBegan(t *testing.T) {
	stored := &memoryCheckpoint{}
	for _, position := range []at{100, 200} {
		store, err := outbox.Open(t.Context(), t.TempDir())
		must(t, err)
		start, err := newLeader(store, stored, position).takeOver(t.Context())
		must(t, err)
		if start.Position != 100 {
			t.Errorf("at %d, it starts at %d, want 100", position, start.Position)
		}
		must(t, store.Close())
	}
}

// The checkpoint contains a token that the outbox claimed. A further failure must not make it forget this
// token, or the outbox counts as that of another leader.
func TestAnOutboxIsTrustedAfterTakeoversThatFailed(t *testing.T) {
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	defer func() { must(t, store.Close()) }()
	stored := &failing{}
	lead := func() error {
		_, err := newLeader(store, stored, 100).takeOver(t.Context())
		return err
	}
	must(t, lead())
	stored.writes, stored.lost = 1, true
	if lead() == nil {
		t.Fatal("the answer was not lost")
	}
	stored.writes, stored.lost = 1, false
	if lead() == nil {
		t.Fatal("the write did not fail")
	}
	last, found, err := stored.Read(t.Context())
	must(t, err)
	if plan := planTakeover("cluster", store.State(), last, found, 0); !plan.trusted {
		t.Errorf("the outbox is not trusted: %+v, checkpoint %+v", store.State(), last)
	}
}

func TestATakeoverIsRepeatedForTwoMinutes(t *testing.T) {
	for name, tc := range map[string]struct {
		reads int
		fails bool
	}{"for a moment": {3, false}, "for long": {100, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := outbox.Open(t.Context(), t.TempDir())
				must(t, err)
				defer func() { must(t, store.Close()) }()
				begun := clock.RealClock{}.Now()
				start, err := newLeader(store, &failing{reads: tc.reads}, 100).repeatTakeOver(t.Context())
				took := clock.RealClock{}.Since(begun)
				if tc.fails != (err != nil) || !tc.fails && start.Position != 100 || tc.fails && took < takeOverFor {
					t.Errorf("starts at %d after %s: %v", start.Position, took, err)
				}
			})
		})
	}
}

func TestATakeoverThatIsRepeatedEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := outbox.Open(t.Context(), t.TempDir())
		must(t, err)
		defer func() { must(t, store.Close()) }()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := clock.RealClock{}.Now()
		_, err = newLeader(store, &failing{reads: 100}, 100).repeatTakeOver(ctx)
		if took := (clock.RealClock{}).Since(begun); err == nil || took != 5*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
