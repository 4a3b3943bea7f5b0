package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// resets records why the source started from now.
type resets struct {
	noop
	reasons []string
}

func (r *resets) Reset(_ context.Context, reason string) { r.reasons = append(r.reasons, reason) }

func TestADamagedCheckpointIsReportedUnlessTheOutboxReplacesIt(t *testing.T) {
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	defer func() { must(t, store.Close()) }()
	reported := &resets{}
	damaged := fmt.Errorf("the checkpoint: %w", checkpoint.ErrDamaged)
	leader := func(readErr error) *Pipeline {
		return New(Config{
			Source:     at(1),
			ClusterUID: "cluster", Outbox: store, Checkpoint: &memoryCheckpoint{readErr: readErr}, Alarms: NewAlarms(),
			Dispatcher: noop{}, Enricher: noop{}, Reporter: reported, Clock: clock.RealClock{}, Log: logr.Discard(),
		})
	}
	_, err = leader(errors.New("the API server does not answer")).takeOver(t.Context())
	if err == nil || store.State().ClusterUID != "" {
		t.Fatalf("a failed read counts as no checkpoint: %v", err)
	}
	start, err := leader(damaged).takeOver(t.Context())
	must(t, err)
	if start.Position != 1 || !slices.Equal(reported.reasons, []string{damagedReason}) {
		t.Errorf("position %d, reported %q", start.Position, reported.reasons)
	}
	must(t, store.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: 120}}))
	start, err = leader(damaged).takeOver(t.Context())
	must(t, err)
	if start.Position != 120 || len(reported.reasons) != 1 {
		t.Errorf("position %d, want that of the outbox; reported %q", start.Position, reported.reasons)
	}
}

func TestTakeoverTrustsOnlyTheOutboxOfTheLastLeader(t *testing.T) {
	const here, elsewhere = "here", "elsewhere"
	behind := map[string]uint64{"slow": 40}
	waits := progress.Waiting{"grouped": {"k": 30, "l": 80}}
	only := func(key string) progress.Waiting {
		return progress.Waiting{"grouped": {key: waits["grouped"][key]}}
	}
	for name, tc := range map[string]struct {
		outbox outbox.State
		last   checkpoint.Checkpoint
		found  bool
		window time.Duration
		want   takeoverPlan
	}{
		"the first start in the cluster": {
			want: takeoverPlan{},
		},
		"a restart of the leader": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 120},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100}}, found: true,
			want: takeoverPlan{trusted: true, position: 120},
		},
		"a crash between the checkpoint and the confirmation": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", NextEpoch: "b", Position: 120},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Offsets: progress.Offsets{Position: 100}}, found: true,
			want: takeoverPlan{trusted: true, position: 120},
		},
		"the checkpoint was deleted": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 120},
			want:   takeoverPlan{trusted: true, position: 120},
		},
		"an older copy of the disk was restored": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100, Behind: behind}}, found: true,
			want: takeoverPlan{
				position: 50, delivered: progress.Offsets{Position: 100, Behind: behind},
				handled: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 50}},
			},
		},
		"a restart of the leader during a replay": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50, Delivered: progress.Offsets{Position: 100}},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100}}, found: true,
			want: takeoverPlan{trusted: true, position: 50},
		},
		"a restart of the leader after a restore of etcd": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", History: "restored", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100}}, found: true,
			want: takeoverPlan{trusted: true, history: "restored", position: 50},
		},
		"the disk was lost": {
			last: checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100, Behind: behind}}, found: true,
			want: takeoverPlan{
				position: 40, delivered: progress.Offsets{Position: 100, Behind: behind},
				handled: progress.Offsets{Position: 100, Behind: behind},
			},
		},
		"the disk was lost while a message waited that is older than a restore of etcd": {
			last: checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 0}}}, found: true,
			want: takeoverPlan{
				position: 1, delivered: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 0}},
				handled: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 0}},
			},
		},
		"another replica led since": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Offsets: progress.Offsets{Position: 100, Behind: behind}}, found: true,
			want: takeoverPlan{
				position: 50, delivered: progress.Offsets{Position: 100, Behind: behind},
				handled: progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 50}},
			},
		},
		"another replica led, but not as far": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 120},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Offsets: progress.Offsets{Position: 100, Behind: behind}}, found: true,
			want: takeoverPlan{
				position: 120, delivered: progress.Offsets{Position: 100, Behind: behind},
				handled: progress.Offsets{Position: 120},
			},
		},
		"another replica led after a restore of etcd": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 5000},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", History: "restored", Offsets: progress.Offsets{Position: 100}}, found: true,
			want: takeoverPlan{
				position: 100, history: "restored", delivered: progress.Offsets{Position: 100, Reset: true},
				handled: progress.Offsets{Position: 100},
			},
		},
		"a threshold has a window": {
			last: checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100, Behind: behind}, PositionHistory: []checkpoint.TimedPosition{
				{Position: 5, Time: 100}, {Position: 12, Time: 200}, {Position: 39, Time: 300}, {Position: 90, Time: 400},
			}},
			found: true, window: 99 * time.Second,
			want: takeoverPlan{
				position: 12, delivered: progress.Offsets{Position: 100, Behind: behind},
				handled: progress.Offsets{Position: 100, Behind: behind},
			},
		},
		"a replay was interrupted": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50, Delivered: progress.Offsets{Position: 120, Behind: map[string]uint64{"slow": 110}}},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Offsets: progress.Offsets{Position: 100, Behind: behind}}, found: true,
			want: takeoverPlan{
				position: 110, delivered: progress.Offsets{Position: 100, Behind: behind},
				handled: progress.Offsets{Position: 110},
			},
		},
		"the disk was lost, with occurrences in groups": {
			last: checkpoint.Checkpoint{ClusterUID: here, Epoch: "a", Offsets: progress.Offsets{Position: 100, Waiting: waits}}, found: true,
			want: takeoverPlan{
				position: 29, delivered: progress.Offsets{Position: 100, Waiting: waits},
				handled: progress.Offsets{Position: 100, Waiting: waits},
			},
		},
		"this outbox holds or has sent the occurrences in groups": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Offsets: progress.Offsets{Position: 100, Waiting: waits}}, found: true,
			want: takeoverPlan{
				position: 79, delivered: progress.Offsets{Position: 100, Waiting: waits},
				handled: progress.Offsets{Position: 100, Waiting: only("l")},
			},
		},
		"a replay was interrupted before the occurrences in groups": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 20, Delivered: progress.Offsets{Position: 120, Waiting: only("k")}},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", Offsets: progress.Offsets{Position: 100, Waiting: waits}}, found: true,
			want: takeoverPlan{
				position: 29, delivered: progress.Offsets{Position: 100, Waiting: waits},
				handled: progress.Offsets{Position: 120, Waiting: only("k")},
			},
		},
		"the occurrences in groups are of another history": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 5000},
			last:   checkpoint.Checkpoint{ClusterUID: here, Epoch: "b", History: "restored", Offsets: progress.Offsets{Position: 100, Waiting: waits}}, found: true,
			want: takeoverPlan{
				position: 29, history: "restored", delivered: progress.Offsets{Position: 100, Waiting: waits, Reset: true},
				handled: progress.Offsets{Position: 100, Waiting: waits},
			},
		},
		"an empty epoch matches nothing": {
			outbox: outbox.State{ClusterUID: here, Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: here, Offsets: progress.Offsets{Position: 100}}, found: true,
			want: takeoverPlan{position: 100, delivered: progress.Offsets{Position: 100}, handled: progress.Offsets{Position: 100}},
		},
		"the outbox is of another cluster": {
			outbox: outbox.State{ClusterUID: elsewhere, Epoch: "a", Position: 50},
			want:   takeoverPlan{reset: resetReason},
		},
		"the checkpoint is of another cluster": {
			last: checkpoint.Checkpoint{ClusterUID: elsewhere, Epoch: "a", Offsets: progress.Offsets{Position: 50}}, found: true,
			want: takeoverPlan{reset: resetReason},
		},
		"only the checkpoint is of another cluster": {
			outbox: outbox.State{ClusterUID: here, Epoch: "a", Position: 50},
			last:   checkpoint.Checkpoint{ClusterUID: elsewhere, Epoch: "z", Offsets: progress.Offsets{Position: 900}}, found: true,
			want: takeoverPlan{trusted: true, position: 50},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := planTakeover(here, tc.outbox, tc.last, tc.found, tc.window)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(takeoverPlan{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The source needs the times to distinguish new Events from old ones that changed.
func TestATakeoverStartsWithTheTimesOfItsPositions(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0).UTC() }
	last := checkpoint.Checkpoint{
		ClusterUID: "here", Epoch: "other", Offsets: progress.Offsets{Position: 100}, Time: 400,
		PositionHistory: []checkpoint.TimedPosition{{Position: 12, Time: 200}, {Position: 39, Time: 300}},
	}
	behind := last
	behind.Behind = map[string]uint64{"slow": 40}
	longer := progress.Offsets{Position: 100, Behind: map[string]uint64{"slow": 80}, Waiting: progress.Waiting{"chat": {"key": 60}}}
	for name, tc := range map[string]struct {
		own  outbox.State
		last checkpoint.Checkpoint
		want source.Start
	}{
		"a new disk":        {outbox.State{}, last, source.Start{Position: 100, Time: at(400)}},
		"a replay":          {outbox.State{}, behind, source.Start{Position: 40, Time: at(300), Needed: 40, Until: 100, UntilTime: at(400)}},
		"an old disk":       {outbox.State{Epoch: "a", Position: 50, Time: at(310)}, behind, source.Start{Position: 50, Time: at(310), Needed: 50, Until: 100, UntilTime: at(400)}},
		"the same disk":     {outbox.State{Epoch: "other", Position: 120, Time: at(450), CountsKnown: true}, behind, source.Start{Position: 120, Time: at(450), CountsKnown: true}},
		"a longer replay":   {outbox.State{Epoch: "other", Position: 40, Delivered: longer}, last, source.Start{Position: 40, Time: at(300), Needed: 59, Until: 100, UntilTime: at(400)}},
		"an unfinished one": {outbox.State{Epoch: "other", Position: 40, Delivered: progress.Offsets{Position: 100}}, last, source.Start{Position: 40, Time: at(300), Needed: 100, Until: 100, UntilTime: at(400)}},
	} {
		t.Run(name, func(t *testing.T) {
			state := tc.own
			state.ClusterUID = "here"
			if plan := planTakeover("here", state, tc.last, true, 0); !plan.trusted {
				if plan.position != state.Position {
					state.Time = time.Time{} // as Replay does
				}
				state.Position, state.Delivered, state.CountsKnown = plan.position, plan.handled, false
			}
			if diff := cmp.Diff(tc.want, startOf(state, tc.last)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheCheckpointHasTheTimeOfItsPosition(t *testing.T) {
	p := &Pipeline{lastCheckpoint: checkpoint.Checkpoint{Time: 400}}
	for name, tc := range map[string]struct {
		state outbox.State
		want  int64
	}{
		"no Event yet":       {outbox.State{Position: 1}, 0},
		"the source is at":   {outbox.State{Position: 120, Time: time.Unix(500, 0)}, 500},
		"a replay is not":    {outbox.State{Position: 40, Time: time.Unix(300, 0), Delivered: progress.Offsets{Position: 100}}, 400},
		"a replay has ended": {outbox.State{Position: 100, Time: time.Unix(410, 0), Delivered: progress.Offsets{Position: 100}}, 410},
	} {
		if got := p.readTime(outbox.Snapshot{State: tc.state}); got != tc.want {
			t.Errorf("%s: time %d, want %d", name, got, tc.want)
		}
	}
}
