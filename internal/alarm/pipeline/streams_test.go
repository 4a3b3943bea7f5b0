package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// changesOf returns entries of changes for a receiver, at positions from, from+1, ...
func changesOf(receiver string, from uint64, n int) (all []outbox.Entry) {
	for i := range uint64(n) {
		all = append(all, outbox.Entry{
			Receiver: receiver, Alarm: "Alarm/shop/some", Key: fmt.Sprint("k", from+i), Position: from + i, Count: 1,
			CreatedAt: time.Unix(1_800_000_000, 0), Tenant: "Alarm/shop/",
		})
	}
	return all
}

func openOutbox(t *testing.T) *outbox.Store {
	t.Helper()
	store, err := outbox.Open(t.Context(), t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

func TestCheckpointContainsChangesThatWait(t *testing.T) {
	store := openOutbox(t)
	now := time.Unix(1_800_000_000, 0).UTC()
	replaying := progress.Offsets{Position: 90, Waiting: progress.Waiting{"ops": {"passed": 50, "ahead": 60}, "other": {"ahead": 70}}}
	grouped := changesOf("grouped", 40, 1)
	grouped[0].Member = &outbox.Membership{Group: "g", Rule: group.Rule{Wait: time.Hour}, Event: group.Event{At: now}}
	for _, batch := range []outbox.Change{
		{Objects: &outbox.ObjectStep{Stream: outbox.Stream{Name: "pods", Version: "v1", Position: 50, Time: now, Delivered: replaying}}, Entries: append(grouped, changesOf("ops", 45, 1)...)},
		{Objects: &outbox.ObjectStep{Stream: outbox.Stream{Name: "nodes", Position: 7}}},
		{Objects: &outbox.ObjectStep{Stream: outbox.Stream{Name: "from now"}}},
	} {
		must(t, store.Commit(t.Context(), batch))
	}
	c, err := (&Pipeline{Config: Config{Outbox: store}}).nextCheckpoint(t.Context())
	must(t, err)
	want := map[string]checkpoint.Stream{
		"pods": {Version: "v1", Offsets: progress.Offsets{Position: 90, Waiting: progress.Waiting{
			"grouped": {"k40": 40}, "ops": {"k45": 45, "ahead": 60}, "other": {"ahead": 70}}}, Time: now.Unix()},
		"nodes": {Offsets: progress.Offsets{Position: 7, Waiting: progress.Waiting{}}},
	}
	if diff := cmp.Diff(want, c.Streams); diff != "" {
		t.Error(diff)
	}
}

func TestWaitingChangesOfOneTenantDisplaceNoOthers(t *testing.T) {
	const greedy, victim = "AlarmReceiver/greedy/hook", "AlarmReceiver/shop/hook"
	store := openOutbox(t)
	many := checkpoint.MaxWaiting + 100
	must(t, store.Commit(t.Context(), outbox.Change{Objects: &outbox.ObjectStep{Stream: outbox.Stream{Name: "pods", Position: 1 << 20}}, Entries: append(changesOf(greedy, 10, many), changesOf(victim, 1, 3)...)}))
	c, err := (&Pipeline{Config: Config{Outbox: store}}).nextCheckpoint(t.Context())
	must(t, err)
	waiting := c.Streams["pods"].Waiting
	if len(waiting[victim]) != 3 || len(waiting[greedy]) != checkpoint.MaxWaiting-3 {
		t.Errorf("%d and %d changes are in the checkpoint", len(waiting[victim]), len(waiting[greedy]))
	}
	if _, ok := waiting[greedy][fmt.Sprint("k", 10+many-1)]; !ok {
		t.Error("the newest change is not in the checkpoint")
	}
}

func TestAStreamIsReplayedFromBeforeTheFirstChangeThatWaits(t *testing.T) {
	waits := progress.Waiting{"ops": {"k": 30, "l": 80}}
	last := checkpoint.Stream{Version: "v1", Offsets: progress.Offsets{Position: 100, Waiting: waits}, Time: 5}
	stream := func(position uint64, handled progress.Offsets) outbox.Stream {
		return outbox.Stream{Name: "pods", Version: "v1", Position: position, Time: time.Unix(5, 0).UTC(), Delivered: handled}
	}
	for name, tc := range map[string]struct {
		own  outbox.Stream
		want outbox.Stream
	}{
		"the disk was lost": {want: stream(29, progress.Offsets{Position: 100, Waiting: waits})},
		"an old outbox contains some": {
			own:  outbox.Stream{Position: 40},
			want: stream(79, progress.Offsets{Position: 100, Waiting: progress.Waiting{"ops": {"l": 80}}}),
		},
		"an outbox is further": {own: outbox.Stream{Position: 120}, want: stream(120, progress.Offsets{Position: 120})},
		"an interrupted replay": {
			own:  stream(29, progress.Offsets{Position: 100, Waiting: waits}),
			want: stream(29, progress.Offsets{Position: 100, Waiting: waits}),
		},
		"an interrupted replay that passed one": {
			own:  stream(50, progress.Offsets{Position: 120, Waiting: waits}),
			want: stream(79, progress.Offsets{Position: 120, Waiting: progress.Waiting{"ops": {"l": 80}}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			delivered, streams := planStreams(map[string]checkpoint.Stream{"pods": last}, map[string]outbox.Stream{"pods": tc.own, "nodes": {Position: 1}}, nil)
			if diff := cmp.Diff([]outbox.Stream{tc.want}, streams); diff != "" {
				t.Error(diff)
			}
			want := map[string]progress.Offsets{"pods": {Position: 100, Waiting: waits}}
			if diff := cmp.Diff(want, delivered); diff != "" {
				t.Errorf("delivered: %s", diff)
			}
		})
	}
	if _, streams := planStreams(map[string]checkpoint.Stream{"pods": {Offsets: progress.Offsets{Position: 1, Waiting: progress.Waiting{"r": {"k": 1}}}}}, nil, nil); streams[0].Position != 1 {
		t.Errorf("a replay begins at %d: 0 would be now", streams[0].Position)
	}
	if _, streams := planStreams(map[string]checkpoint.Stream{"pods": {States: []checkpoint.State{{UID: "u"}}}}, nil, nil); len(streams) > 0 {
		t.Errorf("a stream that was dropped is replayed from %d", streams[0].Position)
	}
}

// A leader with an old outbox sends what the last one did not, and nothing twice. A crash can
// repeat each step.
func TestAnOldOutboxContinuesTheStreamsOfTheCheckpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		history   string
		position  uint64
		delivered progress.Offsets
	}{
		"same history":    {"h", 9, progress.Offsets{}},
		"another history": {"other", 5, progress.Offsets{Position: 6, Waiting: progress.Waiting{"ops": {"k6": 6}}}},
	} {
		t.Run(name, func(t *testing.T) {
			store := openOutbox(t)
			must(t, store.Replay(t.Context(), outbox.Replay{History: "h", Position: 1}))
			must(t, store.Commit(t.Context(), outbox.Change{Objects: &outbox.ObjectStep{Stream: outbox.Stream{Name: "pods", Position: 9, Complete: true}, Put: []outbox.Baseline{{UID: "web", Namespace: "shop"}}}, Entries: changesOf("ops", 5, 3)}))
			last := map[string]checkpoint.Stream{"pods": {Offsets: progress.Offsets{Position: 6, Waiting: progress.Waiting{"ops": {"k6": 6}}}}}
			p := &Pipeline{Config: Config{Outbox: store}}
			for range 2 {
				must(t, p.replayStreams(t.Context(), tc.history, last))
			}
			streams, err := store.Streams.All(t.Context())
			must(t, err)
			want := map[string]outbox.Stream{"pods": {Name: "pods", Position: tc.position, Delivered: tc.delivered, Omitted: []string{}}}
			if diff := cmp.Diff(want, streams); diff != "" {
				t.Error(diff)
			}
			for b, err := range store.Streams.Baselines(t.Context(), "pods") {
				t.Errorf("a baseline remains: %v, %v", b, err)
			}
			waiting, err := store.WaitingKeys(t.Context(), nil, nil)
			must(t, err)
			delete(waiting, "")
			if diff := cmp.Diff(map[string]progress.Waiting{"pods": {"ops": {"k6": 6, "k7": 7}}}, waiting); diff != "" {
				t.Errorf("what waits: %s", diff)
			}
		})
	}
}

// replayStreams is the part of a takeover that is about changes.
func (p *Pipeline) replayStreams(ctx context.Context, history string, last map[string]checkpoint.Stream) error {
	r := outbox.Replay{History: history, Delivered: map[string]progress.Offsets{}}
	if err := p.addStreamsTo(ctx, &r, last); err != nil {
		return err
	}
	state := p.Outbox.State()
	r.History, r.Position, r.Handled = state.History, state.Position, state.Delivered
	return p.Outbox.Replay(ctx, r)
}
