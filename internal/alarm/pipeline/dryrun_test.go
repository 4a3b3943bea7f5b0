package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

var evening = time.Date(2026, 11, 20, 21, 55, 0, 0, time.UTC)

// occurrencesAt returns occurrences about objects, each at some seconds.
func occurrencesAt(times map[string][]int) []alarm.Occurrence {
	var all []alarm.Occurrence
	for name, seconds := range times {
		for _, s := range seconds {
			all = append(all, alarm.Occurrence{
				Event: alarm.Event{
					UID: fmt.Sprint(name, s), Count: 1, Namespace: "shop", Reason: "BackOff", Note: fmt.Sprint("at ", s),
					Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: name},
				},
				Increase: 1, Position: uint64(100 + s), ObservedAt: evening.Add(time.Duration(s) * time.Second),
			})
		}
	}
	return all
}

func dryRunOf(t *testing.T, spec v1alpha1.AlarmSpec, occurrences []alarm.Occurrence) *DryRunResult {
	t.Helper()
	r, err := DryRun(t.Context(), t.TempDir(), compiledOf(t, spec), occurrences, nil, noop{}, evening.Add(time.Hour))
	must(t, err)
	return r
}

func compiledOf(t *testing.T, spec v1alpha1.AlarmSpec) *match.Alarm {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	spec.Match = []v1alpha1.EventMatch{{}}
	a, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "some"}, UID: "uid", Spec: spec, Receivers: []string{"ops"},
	})
	must(t, err)
	return a
}

// describe returns a line for each occurrence, with its message or why it is not sent, and
// a line for each message.
func describe(r *DryRunResult) []string {
	var all []string
	for _, e := range r.Evaluations {
		line := fmt.Sprintf("%s %s: message %d", e.Occurrence.Event.Regarding.Name, e.Occurrence.Event.Note, e.Message+1)
		if e.Suppressed != "" {
			line = fmt.Sprintf("%s %s: %s", e.Occurrence.Event.Regarding.Name, e.Occurrence.Event.Note, e.Suppressed)
		}
		all = append(all, line)
	}
	for _, m := range r.Messages {
		all = append(all, fmt.Sprintf("%s %s", m.At.Sub(evening), strings.ReplaceAll(m.Title, "\n", " ")))
	}
	return all
}

func TestDryRunShowsGroupsAndSuppressedOccurrences(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  v1alpha1.AlarmSpec
		times map[string][]int
		want  []string
	}{
		"single messages": {
			times: map[string][]int{"web-0": {30, 5}},
			want:  []string{"web-0 at 5: message 1", "web-0 at 30: message 2", "5s shop/web-0: BackOff (Pod)", "30s shop/web-0: BackOff (Pod)"},
		},
		"threshold": {
			spec:  v1alpha1.AlarmSpec{Threshold: &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 10}},
			times: map[string][]int{"web-0": {5, 20, 25}},
			want:  []string{"web-0 at 5: threshold", "web-0 at 20: threshold", "web-0 at 25: message 1", "25s shop/web-0: BackOff (Pod)"},
		},
		"mute": {
			spec:  v1alpha1.AlarmSpec{Mute: []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "22:00", End: "23:00"}}}}},
			times: map[string][]int{"web-0": {299, 300}},
			want:  []string{"web-0 at 299: message 1", "web-0 at 300: mute", "4m59s shop/web-0: BackOff (Pod)"},
		},
		"groups": {
			spec: v1alpha1.AlarmSpec{Group: &v1alpha1.AlarmGroup{
				By: []string{"regarding.name"}, WaitSeconds: new(int32(5)), IntervalSeconds: new(int32(60)),
			}},
			times: map[string][]int{"web-0": {1, 3, 20, 40}, "web-1": {4}},
			want: []string{
				"web-0 at 1: message 1", "web-0 at 3: message 1", "web-1 at 4: message 2", "web-0 at 20: message 3", "web-0 at 40: message 3",
				"7s shop/web-0: BackOff (Pod)", "10s shop/web-1: BackOff (Pod)", "1m7s shop/web-0: BackOff (Pod)",
			},
		},
		"resolved by being quiet": {
			spec: v1alpha1.AlarmSpec{
				Group:   &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32(5)), IntervalSeconds: new(int32(60))},
				Resolve: &v1alpha1.AlarmResolve{QuietSeconds: new(int32(100))},
			},
			times: map[string][]int{"web-0": {1, 20, 400}, "web-1": {3590}},
			want: []string{
				"web-0 at 1: message 1", "web-0 at 20: message 2", "web-0 at 400: message 4", "web-1 at 3590: message 6",
				"7s shop/web-0: BackOff (Pod)", "1m7s shop/web-0: BackOff (Pod)", "2m1s Resolved: shop/web-0: BackOff (Pod)",
				"6m46s shop/web-0: BackOff (Pod)", "8m21s Resolved: shop/web-0: BackOff (Pod)", "59m56s shop/web-1: BackOff (Pod)",
			},
		},
		"resolved by another Event": {
			spec: v1alpha1.AlarmSpec{
				Group:   &v1alpha1.AlarmGroup{By: []string{"regarding.kind"}, WaitSeconds: new(int32(5)), IntervalSeconds: new(int32(60))},
				Resolve: &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Names: []string{"good-*"}}}},
				// Thresholds and mutes do not apply to resolutions.
				Threshold: &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 60},
				Mute:      []v1alpha1.MuteWindow{{Times: []v1alpha1.MuteTimes{{Start: "22:00", End: "23:00"}}}},
			},
			times: map[string][]int{"good-0": {1, 350, 600}, "web-0": {10, 20}},
			want: []string{
				"web-0 at 10: threshold", "web-0 at 20: message 1", "good-0 at 350: message 2",
				"26s shop/web-0: BackOff (Pod)", "5m51s Resolved: shop/good-0: BackOff (Pod)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describe(dryRunOf(t, tc.spec, occurrencesAt(tc.times)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A kubelet emits NodeReady again if its first update of the Node failed, and can use another Event.
func TestANodeThatJoinsIsOneMessage(t *testing.T) {
	manifest, err := os.ReadFile("../../../config/samples/node-joined.yaml")
	must(t, err)
	var sample v1alpha1.ClusterAlarm
	must(t, yaml.Unmarshal(manifest, &sample))
	compiler, err := match.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(match.NewDefinition(alarm.KindClusterAlarm, &sample, []string{"ops"}))
	must(t, err)
	for name, apart := range map[string]int{"in the same second": 0, "in the next second": 1, "four seconds later": 4} {
		t.Run(name, func(t *testing.T) {
			occurrences := occurrencesAt(map[string][]int{"worker-9": {0}, "worker-10": {2}})
			again := occurrencesAt(map[string][]int{"worker-9": {apart}})[0]
			again.Event.UID, again.Position = "another", 200
			occurrences = append(occurrences, again)
			for i := range occurrences {
				e := &occurrences[i].Event
				e.Reason, e.Namespace, e.LastSeen = "NodeReady", "default", occurrences[i].ObservedAt
				e.Regarding = alarm.Reference{Kind: "Node", Name: e.Regarding.Name}
			}
			r, err := DryRun(t.Context(), t.TempDir(), compiled, occurrences, nil, newNode{}, evening.Add(2*time.Hour))
			must(t, err)
			var titles []string
			for _, m := range r.Messages {
				titles = append(titles, m.Title)
			}
			if diff := cmp.Diff([]string{"NodeReady: worker-9 joined test", "NodeReady: worker-10 joined test"}, titles); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// newNode is an Enricher that knows each object as a Node that was created before it became ready.
type newNode struct{ noop }

func (newNode) Context(_ context.Context, event *alarm.Event) alarm.Context {
	known := alarm.Context{Resolved: true, Cluster: alarm.Cluster{Name: "test", Nodes: 3}}
	known.Object.Metadata = alarm.ObjectMeta{Name: event.Regarding.Name, CreationTimestamp: event.LastSeen.Add(-time.Minute)}
	known.Object.Node.Capacity = map[string]string{"cpu": "4", "memory": "16Gi", "pods": "110"}
	return known
}

// A dry run must show what an operator sends that reads the same occurrences one by one.
func TestDryRunSendsWhatAnOperatorSends(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 9))
		spec := v1alpha1.AlarmSpec{Group: &v1alpha1.AlarmGroup{
			By: []string{"regarding.name"}, WaitSeconds: new(random.Int32N(10)), IntervalSeconds: new(random.Int32N(100)),
		}}
		if random.IntN(2) == 0 {
			spec.Threshold = &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 20}
		}
		times := map[string][]int{}
		for at := 0; at < 900; at += random.IntN(15) {
			name := fmt.Sprint("web-", random.IntN(4))
			times[name] = append(times[name], at)
		}
		occurrences := occurrencesAt(times)
		var want []string
		r := dryRunOf(t, spec, occurrences)
		for _, m := range r.Messages {
			text, err := json.Marshal(m.Message)
			must(t, err)
			want = append(want, m.At.String()+string(text))
		}
		sorted := make([]alarm.Occurrence, 0, len(r.Evaluations))
		for _, e := range r.Evaluations {
			sorted = append(sorted, e.Occurrence)
		}
		if got := operatorRun(t, compiledOf(t, spec), sorted); len(sorted) != len(occurrences) || cmp.Diff(want, got) != "" {
			t.Fatalf("seed %d, %d of %d occurrences: %s", seed, len(sorted), len(occurrences), cmp.Diff(want, got))
		}
	}
}

// operatorRun returns the messages that an operator sends for the occurrences, with their
// times.
func operatorRun(t *testing.T, a *match.Alarm, occurrences []alarm.Occurrence) []string {
	t.Helper()
	ctx, clk := t.Context(), clocktesting.NewFakeClock(evening)
	store, err := outbox.Open(ctx, t.TempDir(), outbox.WithClock(clk), outbox.WithComposer(ComposeGroup))
	must(t, err)
	defer func() { must(t, store.Close()) }()
	alarms := NewAlarms()
	alarms.Set("some", "1", a)
	p := New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &simulatedCheckpoint{s: &simulation{}}, Dispatcher: noop{},
		Alarms: alarms, Enricher: noop{}, Reporter: noop{}, Clock: clk, Log: logr.Discard(),
	})
	var sent []string
	send := func() {
		entries, err := store.Pending(ctx, outbox.Query{Receiver: "ops", Lane: outbox.MainLane, Limit: 1000})
		must(t, err)
		for _, e := range entries {
			sent = append(sent, clk.Now().String()+string(e.Payload))
			attempt, err := store.Prepare(ctx, "ops", outbox.MainLane, []int64{e.ID}, e.Key, e.Payload)
			must(t, err)
			_, err = store.Finish(ctx, attempt, outbox.Outcome{})
			must(t, err)
		}
	}
	releaseUntil := func(end time.Time) {
		for due, err := store.NextDue(ctx); !due.IsZero() && !due.After(end); due, err = store.NextDue(ctx) {
			must(t, err)
			clk.SetTime(due)
			_, err = p.releaseDue(ctx)
			must(t, err)
			send()
		}
	}
	for _, occ := range occurrences {
		releaseUntil(occ.ObservedAt)
		clk.SetTime(occ.ObservedAt)
		must(t, p.handle(ctx, source.Batch{Position: occ.Position, Occurrences: []alarm.Occurrence{occ}}))
		send()
	}
	releaseUntil(evening.Add(24 * time.Hour))
	return sent
}
