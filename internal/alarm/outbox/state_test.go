package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

func TestStateIsTheSameAfterARestart(t *testing.T) {
	ctx := context.Background()
	delivered := progress.Offsets{Position: 9, Behind: map[string]uint64{"r": 8}}
	tests := map[string]struct {
		change func(*Store) error
		want   State
	}{
		"claimed": {
			change: func(s *Store) error { return s.Claim(ctx, "second") },
			want:   State{ClusterUID: "cluster", Epoch: "first", NextEpoch: "second", Position: 7},
		},
		"confirmed": {
			change: func(s *Store) error {
				must(t, s.Claim(ctx, "second"))
				return s.Confirm(ctx)
			},
			want: State{ClusterUID: "cluster", Epoch: "second", Position: 7},
		},
		"confirmed without a claim": {
			change: func(s *Store) error { return s.Confirm(ctx) },
			want:   State{ClusterUID: "cluster", Epoch: "first", Position: 7},
		},
		"moved back": {
			change: func(s *Store) error { return s.Replay(ctx, Replay{Position: 2, Handled: delivered}) },
			want:   State{ClusterUID: "cluster", Epoch: "first", Position: 2, Delivered: delivered},
		},
		"moved on in a replay": {
			change: func(s *Store) error {
				must(t, s.Replay(ctx, Replay{Position: 2, Handled: delivered}))
				return s.Commit(ctx, Change{Events: &EventStep{Position: 4, Time: day, CountsKnown: true}})
			},
			want: State{ClusterUID: "cluster", Epoch: "first", Position: 4, Time: day, CountsKnown: true, Delivered: delivered},
		},
		"in another history": {
			change: func(s *Store) error {
				must(t, s.Replay(ctx, Replay{Position: 2, Handled: delivered}))
				return s.Commit(ctx, Change{Events: &EventStep{Position: 1, History: "restored", CountsKnown: true}})
			},
			want: State{ClusterUID: "cluster", Epoch: "first", Position: 1, CountsKnown: true, History: "restored"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			must(t, s.Reset(ctx, "cluster", 7))
			must(t, s.Claim(ctx, "first"))
			must(t, s.Confirm(ctx))
			must(t, tc.change(s))
			if diff := cmp.Diff(tc.want, s.State()); diff != "" {
				t.Error(diff)
			}
			must(t, s.Close())
			if diff := cmp.Diff(tc.want, open(t, dir).State()); diff != "" {
				t.Errorf("after opening again: %s", diff)
			}
		})
	}
}

func TestAReplayRemovesTheCounts(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 9, CountsKnown: true, Counts: []alarm.EventCount{{UID: "e", Count: 1}}}}))
	must(t, s.Replay(ctx, Replay{Position: 3}))
	if got := allCounts(t, s); len(got) != 0 || s.State().CountsKnown {
		t.Errorf("got counts %v and %+v, want none", got, s.State())
	}
}

func TestANewHistoryLowersThePositionsOfEntries(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1000, 2)
	commit(t, s, "other", 2000, 1)
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 5, History: "restored"}, Entries: entries("r", 4, 1)}))
	want := map[string]Backlog{"r": {Entries: 3, Lowest: alarm.ResetPosition}, "other": {Entries: 1, Lowest: alarm.ResetPosition}}
	if diff := cmp.Diff(want, s.Snapshot().Backlogs); diff != "" {
		t.Error(diff)
	}
	must(t, s.Close())
	if diff := cmp.Diff(want, open(t, dir).Snapshot().Backlogs); diff != "" {
		t.Errorf("after opening again: %s", diff)
	}
}

// The leader that another replica replaced during a reset leads again. What waited then has no position
// in the new history, so the offset of a receiver that is behind says nothing about it.
func TestWhatWaitedAtAResetIsDroppedOnlyIfTheReceiverHasEverything(t *testing.T) {
	for name, tc := range map[string]struct {
		delivered progress.Offsets
		want      int64
	}{
		"the receiver has everything": {progress.Offsets{Position: 9, Reset: true}, 0},
		"it is behind":                {progress.Offsets{Position: 9, Behind: map[string]uint64{"r": 7}, Reset: true}, 1},
		"something waits for it":      {progress.Offsets{Position: 9, Waiting: progress.Waiting{"r": {"x": 8}}, Reset: true}, 1},
		"another receiver is behind":  {progress.Offsets{Position: 9, Behind: map[string]uint64{"other": 7}, Reset: true}, 0},
		"the history began otherwise": {progress.Offsets{Position: 9, Behind: map[string]uint64{"r": 7}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			commit(t, s, "r", 1000, 1)
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: alarm.ResetPosition, History: "restored"}}))
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 6}, Entries: entries("r", 5, 1)}))
			must(t, s.drop(t.Context(), offsets{"": tc.delivered}))
			if got := s.Backlog("r").Entries; got != tc.want {
				t.Errorf("%d entries wait, want %d", got, tc.want)
			}
		})
	}
}

func TestResetRemovesEverything(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	must(t, s.Claim(ctx, "epoch"))
	commit(t, s, "r", 1, 3)
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 9, Counts: []alarm.EventCount{{UID: "e"}}}}))
	prepare(t, s, "r", 1)

	must(t, s.Reset(ctx, "cluster", 4))
	want := Snapshot{State: State{ClusterUID: "cluster", Position: 4}, Backlogs: map[string]Backlog{}}
	if diff := cmp.Diff(want, s.Snapshot()); diff != "" {
		t.Error(diff)
	}
	if got, err := s.Prepared(ctx, "r", MainLane); got != nil || err != nil {
		t.Errorf("prepared: got %v, %v, want none", got, err)
	}
	if got := pending(t, s, "r"); len(got) != 0 {
		t.Errorf("pending: got %v, want none", got)
	}
	if got := allCounts(t, s); len(got) != 0 {
		t.Errorf("counts: got %v, want none", got)
	}
}

// The test compares memory and file after each of many random calls.
func TestSnapshotAgreesWithTheFile(t *testing.T) {
	ctx, s := context.Background(), open(t, t.TempDir())
	random := rand.New(rand.NewPCG(1, 2))
	receiver := func() string { return fmt.Sprint("r", random.IntN(4)) }
	now := day
	actions := []func() error{
		func() error {
			now = now.Add(time.Minute)
			batch := Change{Events: &EventStep{Position: s.State().Position + 3}, Entries: entries(receiver(), int(s.State().Position)+1, 3)}
			batch.Entries[0].CreatedAt = now
			return s.Commit(ctx, batch)
		},
		func() error { // a replay: some entries exist already
			position := s.State().Position
			return s.Commit(ctx, Change{Events: &EventStep{Position: position}, Entries: entries(receiver(), max(1, int(position)-10), 5)})
		},
		func() error {
			of := receiver()
			pending, err := s.Pending(ctx, Query{Receiver: of, Lane: MainLane, Limit: 1 + random.IntN(20)})
			must(t, err)
			return ignore(s.Prepare(ctx, of, MainLane, idsOf(pending), "key", nil))
		},
		func() error {
			a, err := s.Prepared(ctx, receiver(), MainLane)
			if a != nil {
				_, err = s.Finish(ctx, a, Outcome{})
			}
			return err
		},
		func() error { return second(s.DropOlderThan(ctx, receiver(), MainLane, now.Add(-10*time.Minute))) },
		func() error {
			done := s.State().Position - min(s.State().Position, 20)
			return s.drop(ctx, offsets{"": {Position: done, Behind: map[string]uint64{receiver(): done / 2}}})
		},
	}
	for i := range 500 {
		must(t, actions[random.IntN(len(actions))]())
		file := memory{space: ledger.New(0)}
		must(t, file.load(ctx, s.readers))
		if got, want := s.memory.space.Sum(ledger.Messages), file.space.Sum(ledger.Messages); got != want {
			t.Fatalf("after %d actions: %d bytes are counted, %d are in the file", i+1, got, want)
		}
		want := Snapshot{State: file.state, Backlogs: file.backlogs}
		if diff := cmp.Diff(want, s.Snapshot()); diff != "" {
			t.Fatalf("after %d actions: %s", i+1, diff)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func ignore[T any](T, error) error { return nil }
