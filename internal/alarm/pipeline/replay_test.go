package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// The same Events must give the same messages, in any batches and despite restarts, if the
// messages are made and accepted when they are due.
func TestNeitherBatchesNorRestartsChangeTheMessages(t *testing.T) {
	replayed := size.Choose(t, 10_000, 50_000, 500_000, "Events")
	events := randomOccurrences(replayed)
	alarms := randomAlarms(t, 1_000)
	want := (&reader{t: t, alarms: alarms, size: func() int { return 512 }, restarts: 0}).messages(events)
	random := rand.New(rand.NewPCG(5, 6))
	sizes := func() int { return 1 + random.IntN(1+random.IntN(512)) }
	got := (&reader{t: t, alarms: alarms, size: sizes, restarts: 40}).messages(events)
	grouped := 0
	for _, body := range want {
		if strings.Contains(body, `"group":`) {
			grouped++
		}
	}
	if len(want) < replayed/10 || grouped < replayed/200 {
		t.Fatalf("only %d messages, %d of groups: the test shows nothing", len(want), grouped)
	}
	differences := 0
	for key := range maps.Keys(want) {
		if got[key] != want[key] && differences < 10 {
			differences++
			t.Errorf("%s: %s", key, cmp.Diff(want[key], got[key]))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d messages, want %d", len(got), len(want))
	}
}

// randomOccurrences returns occurrences of typical Events in 50 namespaces, over some hours.
func randomOccurrences(n int) []alarm.Occurrence {
	random := rand.New(rand.NewPCG(7, 8))
	shapes := []struct{ eventType, reason, kind, note, controller string }{
		{"Warning", "BackOff", "Pod", "Back-off restarting failed container app in pod %s", "kubelet"},
		{"Warning", "Unhealthy", "Pod", "Readiness probe failed: HTTP probe failed with statuscode: 503", "kubelet"},
		{"Warning", "FailedScheduling", "Pod", "0/3 nodes are available: 3 Insufficient cpu.", "default-scheduler"},
		{"Normal", "ScalingReplicaSet", "Deployment", "Scaled up replica set %s to 3", "deployment-controller"},
		{"Normal", "Created", "Pod", "Created container: app", "kubelet"},
	}
	events := make([]alarm.Occurrence, 0, n)
	counts := map[string]int64{}
	at := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	for i := range n {
		at = at.Add(time.Duration(random.IntN(200)) * time.Millisecond)
		shape := shapes[random.IntN(len(shapes))]
		namespace, name := fmt.Sprint("team-", random.IntN(50)), fmt.Sprint("web-", random.IntN(20))
		uid := namespace + name + shape.reason
		increase := 1 + random.Int64N(1+random.Int64N(4))
		counts[uid] += increase
		events = append(events, alarm.Occurrence{
			Increase: increase, Position: uint64(10 + 2*i), ObservedAt: at.Truncate(time.Second),
			Event: alarm.Event{
				Namespace: namespace, Name: name + ".1", UID: uid, Type: shape.eventType, Reason: shape.reason,
				Note: shape.note, Count: counts[uid], LastSeen: at, ReportingController: shape.controller,
				Regarding: alarm.Reference{APIVersion: "v1", Kind: shape.kind, Namespace: namespace, Name: name},
			},
		})
	}
	return events
}

// shortestWait is the shortest waitSeconds of randomAlarms.
const shortestWait = 30 * time.Second

// randomAlarms returns typical Alarms of these namespaces.
func randomAlarms(t *testing.T, n int) *Alarms {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	random := rand.New(rand.NewPCG(9, 10))
	alarms := NewAlarms()
	for i := range n {
		namespace := fmt.Sprint("team-", i%50)
		spec := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{
			Kinds: []string{"Pod"}, Types: []v1alpha1.EventType{"Warning"}, Names: []string{fmt.Sprintf("web-*%d", i/50%20)},
		}}}
		if i%2 == 0 {
			spec.Threshold = &v1alpha1.AlarmThreshold{Count: int32(2 + random.IntN(10)), WithinSeconds: int32(30 + random.IntN(900))}
		}
		if i%10 == 0 {
			spec.Group = &v1alpha1.AlarmGroup{
				By: []string{"reason"}, WaitSeconds: new(int32(shortestWait/time.Second) + random.Int32N(600)), IntervalSeconds: new(int32(30 + random.IntN(600))),
			}
		}
		if i%3 == 0 {
			spec.Mute = []v1alpha1.MuteWindow{{
				TimeZone: "Europe/Berlin",
				Times:    []v1alpha1.MuteTimes{{Start: fmt.Sprintf("%02d:%02d", 21+random.IntN(3), random.IntN(60)), End: fmt.Sprintf("00:%02d", random.IntN(60))}},
			}}
		}
		compiled, err := compiler.Compile(match.Definition{
			ID:  kube.Key{Kind: alarm.KindAlarm, Namespace: namespace, Name: fmt.Sprint("alarm-", i)},
			UID: fmt.Sprint("alarm-", i), Spec: spec, Receivers: []string{fmt.Sprint("receiver-", i%7)},
		})
		must(t, err)
		alarms.Set(fmt.Sprint(i), "1", compiled)
	}
	return alarms
}

// reader is an operator that reads Events in batches of some size, with restarts.
type reader struct {
	t        *testing.T
	alarms   *Alarms
	size     func() int
	restarts int
}

// messages returns the bodies of all messages, by receiver and key.
func (r *reader) messages(events []alarm.Occurrence) map[string]string {
	dir, messages := r.t.TempDir(), map[string]string{}
	perProcess := len(events)/(r.restarts+1) + 1
	for len(events) > 0 {
		n := min(perProcess, len(events))
		r.run(dir, events[:n], messages)
		events = events[n:]
	}
	return messages
}

// run runs one process of the operator.
func (r *reader) run(dir string, events []alarm.Occurrence, messages map[string]string) {
	ctx, clock := r.t.Context(), clocktesting.NewFakeClock(events[0].ObservedAt)
	store, err := outbox.Open(ctx, dir, outbox.WithClock(clock), outbox.WithComposer(ComposeGroup))
	must(r.t, err)
	defer func() { must(r.t, store.Close()) }()
	p := New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, ClusterUID: "cluster", Outbox: store, Checkpoint: &memoryCheckpoint{},
		Dispatcher: noop{}, Alarms: r.alarms, Enricher: noop{}, Reporter: noop{}, Clock: clock, Log: logr.Discard(),
	})
	for len(events) > 0 {
		r.releaseUntil(ctx, clock, store, events[0].ObservedAt, messages)
		due, err := store.NextDue(ctx)
		must(r.t, err)
		if first := events[0].ObservedAt.Add(shortestWait); due.IsZero() || first.Before(due) {
			due = first // a message of a group that the batch opens
		}
		n := 1
		for size := min(r.size(), len(events)); n < size && events[n].ObservedAt.Before(due); {
			n++
		}
		clock.SetTime(events[n-1].ObservedAt)
		must(r.t, p.handle(ctx, source.Batch{Position: events[n-1].Position, Occurrences: events[:n:n]}))
		events = events[n:]
		r.drain(ctx, store, messages)
	}
}

// releaseUntil makes the messages of groups that are due until a time, each when it is due.
func (r *reader) releaseUntil(ctx context.Context, clock *clocktesting.FakeClock, store *outbox.Store, until time.Time, messages map[string]string) {
	for {
		due, err := store.NextDue(ctx)
		must(r.t, err)
		if due.IsZero() || due.After(until) {
			return
		}
		clock.SetTime(due)
		_, err = store.Release(ctx)
		must(r.t, err)
		r.drain(ctx, store, messages)
	}
}

// drain acknowledges all messages that can be sent now.
func (r *reader) drain(ctx context.Context, store *outbox.Store, messages map[string]string) {
	for receiver := range store.Snapshot().Backlogs {
		entries, err := store.Pending(ctx, outbox.Query{Receiver: receiver, Lane: outbox.MainLane, Limit: 1_000_000})
		must(r.t, err)
		var ids []int64
		for _, e := range entries {
			ids = append(ids, e.ID)
			if _, twice := messages[e.Receiver+e.Key]; twice {
				r.t.Errorf("%s was sent twice", e.Payload)
			}
			messages[e.Receiver+e.Key] = string(e.Payload)
		}
		last := entries[len(entries)-1]
		for some := range slices.Chunk(ids, outbox.MaxEntries) {
			attempt, err := store.Prepare(ctx, receiver, outbox.MainLane, some, last.Key, nil)
			must(r.t, err)
			_, err = store.Finish(ctx, attempt, outbox.Outcome{})
			must(r.t, err)
		}
	}
}
