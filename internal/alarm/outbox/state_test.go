package outbox

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStateOutlivesTheProcess(t *testing.T) {
	ctx := context.Background()
	floors := DeliveredOffsets{Default: 9, Receivers: map[string]uint64{"r": 8}}
	tests := map[string]struct {
		change func(*Store) error
		want   State
	}{
		"claimed": {
			change: func(l *Store) error { return l.Claim(ctx, "second") },
			want:   State{ClusterUID: "cluster", Epoch: "first", NextEpoch: "second", Position: 7},
		},
		"confirmed": {
			change: func(l *Store) error {
				must(t, l.Claim(ctx, "second"))
				return l.Confirm(ctx)
			},
			want: State{ClusterUID: "cluster", Epoch: "second", Position: 7},
		},
		"confirmed without a claim": {
			change: func(l *Store) error { return l.Confirm(ctx) },
			want:   State{ClusterUID: "cluster", Epoch: "first", Position: 7},
		},
		"moved back": {
			change: func(l *Store) error { return l.Replay(ctx, "", 2, floors) },
			want:   State{ClusterUID: "cluster", Epoch: "first", Position: 2, Delivered: floors},
		},
		"moved on in a replay": {
			change: func(l *Store) error {
				must(t, l.Replay(ctx, "", 2, floors))
				return l.Commit(ctx, Batch{Position: 4, Time: day, CountsKnown: true})
			},
			want: State{ClusterUID: "cluster", Epoch: "first", Position: 4, Time: day, CountsKnown: true, Delivered: floors},
		},
		"in another history": {
			change: func(l *Store) error {
				must(t, l.Replay(ctx, "", 2, floors))
				return l.Commit(ctx, Batch{Position: 1, History: "restored", CountsKnown: true})
			},
			want: State{ClusterUID: "cluster", Epoch: "first", Position: 1, CountsKnown: true, History: "restored"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			must(t, l.Reset(ctx, "cluster", 7))
			must(t, l.Claim(ctx, "first"))
			must(t, l.Confirm(ctx))
			must(t, tc.change(l))
			if diff := cmp.Diff(tc.want, l.State()); diff != "" {
				t.Error(diff)
			}
			must(t, l.Close())
			if diff := cmp.Diff(tc.want, open(t, dir).State()); diff != "" {
				t.Errorf("after opening again: %s", diff)
			}
		})
	}
}

func TestReplayForgetsTheCounts(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Commit(ctx, Batch{Position: 9, CountsKnown: true, Counts: []EventCount{{UID: "e", Count: 1}}}))
	must(t, l.Replay(ctx, "", 3, DeliveredOffsets{}))
	if got := allCounts(t, l); len(got) != 0 || l.State().CountsKnown {
		t.Errorf("got counts %v and %+v, want none", got, l.State())
	}
}

func TestEntriesOfAFormerHistoryAreNotAheadOfTheFeed(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1000, 2)
	commit(t, l, "other", 2000, 1)
	must(t, l.Commit(ctx, Batch{Position: 5, History: "restored", Entries: entries("r", 4, 1)}))
	want := map[string]Backlog{"r": {Entries: 3, Lowest: 4}, "other": {Entries: 1, Lowest: 5}}
	if diff := cmp.Diff(want, l.Snapshot().Backlogs); diff != "" {
		t.Error(diff)
	}
	must(t, l.Close())
	if diff := cmp.Diff(want, open(t, dir).Snapshot().Backlogs); diff != "" {
		t.Errorf("after opening again: %s", diff)
	}
}

func TestFloorIsTheReceiversOwnOrTheDefault(t *testing.T) {
	floors := DeliveredOffsets{Default: 9, Receivers: map[string]uint64{"behind": 3}}
	for receiver, want := range map[string]uint64{"behind": 3, "other": 9} {
		if got := floors.Offset(receiver); got != want {
			t.Errorf("%s: got %d, want %d", receiver, got, want)
		}
	}
}

func TestResetDropsAll(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Claim(ctx, "epoch"))
	commit(t, l, "r", 1, 3)
	must(t, l.Commit(ctx, Batch{Position: 9, Counts: []EventCount{{UID: "e"}}}))
	freeze(t, l, "r", 1)

	must(t, l.Reset(ctx, "cluster", 4))
	want := Snapshot{State: State{ClusterUID: "cluster", Position: 4}, Backlogs: map[string]Backlog{}}
	if diff := cmp.Diff(want, l.Snapshot()); diff != "" {
		t.Error(diff)
	}
	if got, err := l.Prepared(ctx, "r"); got != nil || err != nil {
		t.Errorf("frozen: got %v, %v, want none", got, err)
	}
	if got := pending(t, l, "r"); len(got) != 0 {
		t.Errorf("pending: got %v, want none", got)
	}
	if got := allCounts(t, l); len(got) != 0 {
		t.Errorf("counts: got %v, want none", got)
	}
}
