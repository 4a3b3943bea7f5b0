package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

const deployments = "deployments.apps"

// scriptedChanges yields batches of changes, and ends the pipeline.
type scriptedChanges struct {
	needs chan objects.Needs
	run   func(ctx context.Context, handle objects.Handler)
	end   func()
}

func (c *scriptedChanges) SetNeeds(needs objects.Needs) {
	select {
	case c.needs <- needs:
	default:
	}
}

func (c *scriptedChanges) SetReads(objects.Needs) {}

func (c *scriptedChanges) Run(ctx context.Context, handle objects.Handler) error {
	defer c.end()
	c.run(ctx, handle)
	return nil
}

// replicaOfChanges runs one term of a leader with a disk, and the checkpoint of the simulation.
func replicaOfChanges(t *testing.T, s *simulation, store *outbox.Store, run func(ctx context.Context, handle objects.Handler)) objects.Needs {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := &scriptedChanges{needs: make(chan objects.Needs, 1), run: run, end: cancel}
	alarms := NewAlarms()
	p := New(Config{
		ClusterUID: "cluster", Outbox: store, Checkpoint: &simulatedCheckpoint{s: s}, Changes: changes,
		Source: sourceFunc(func(ctx context.Context, handle source.Handler) {
			if err := handle(ctx, source.Batch{Position: max(1, store.State().Position), CountsKnown: true}); ctx.Err() == nil {
				must(t, err)
			}
			<-ctx.Done()
		}),
		Dispatcher: noop{}, Alarms: alarms, Enricher: noop{}, Reporter: noop{},
		LoadAlarms: func(context.Context) error {
			compiled, err := compiler.Compile(match.Definition{
				ID: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "rollouts"}, UID: "alarm", Receivers: []string{"hook"},
				Spec: v1alpha1.AlarmSpec{Changes: []v1alpha1.ChangeMatch{{
					Resource: v1alpha1.ChangeResource{APIGroup: "apps", Resource: "deployments"}, Fields: []string{"spec.replicas"},
				}}},
			})
			alarms.Set("rollouts", "1", compiled)
			return err
		},
		Observe: func(_ context.Context, observed []alarm.Occurrence) {
			if len(observed) > 0 {
				t.Error("a change is observed as an Event")
			}
		},
		Clock: clocktesting.NewFakeClock(s.clock.Now()), Log: logr.Discard(),
	})
	must(t, p.Start(ctx))
	select {
	case needs := <-changes.needs:
		return needs
	default:
		return nil
	}
}

// scaled returns a batch in which a Deployment was scaled.
func scaled(at uint64, from, to int64) objects.Batch {
	object := func(replicas int64) map[string]any {
		return map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "u"},
			"spec": map[string]any{"replicas": replicas},
		}
	}
	return objects.Batch{
		Stream: outbox.Stream{Name: deployments, Version: "v1", Shape: "spec.replicas", Position: at, Complete: true},
		Changes: []alarm.Occurrence{{
			Event: alarm.Event{
				Namespace: "shop", Name: "web", UID: "u", Type: "Normal", Reason: "Updated", Count: 1,
				Regarding: alarm.Reference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"},
			},
			Increase: 1, Position: at, ObservedAt: time.Unix(1_800_000_000, 0),
			Change: &alarm.Change{
				Resource: alarm.Resource{Group: "apps", Version: "v1", Resource: "deployments"}, Operation: alarm.Update,
				Old: object(from), Object: object(to), Known: func(string) bool { return true },
			},
		}},
		Put: []outbox.Baseline{{UID: "u", Namespace: "shop", Shape: "spec.replicas", Digest: [16]byte{byte(to)}, Data: []byte("{}")}},
	}
}

func notes(t *testing.T, store *outbox.Store) (all []string) {
	t.Helper()
	entries, err := store.Pending(t.Context(), outbox.Query{Receiver: "hook", Lane: outbox.MainLane, Limit: 100})
	must(t, err)
	for i := range entries {
		_, after, _ := strings.Cut(string(entries[i].Payload), `"note":"`)
		note, _, _ := strings.Cut(after, `"`)
		all = append(all, note)
	}
	return all
}

func TestChangesAreCommittedWithTheirBaselines(t *testing.T) {
	s, store := newSimulation(t, 1), openOutbox(t)
	needs := replicaOfChanges(t, s, store, func(ctx context.Context, handle objects.Handler) {
		must(t, handle(ctx, scaled(100, 3, 5)))
		must(t, handle(ctx, scaled(101, 5, 5)))
		must(t, handle(ctx, scaled(102, 5, 1)))
	})
	if got := strings.Join(notes(t, store), ", "); got != "replicas: 3 -> 5, replicas: 5 -> 1" {
		t.Errorf("messages %q", got)
	}
	streams, err := store.Streams.All(t.Context())
	must(t, err)
	if r := streams[deployments]; r.Position != 102 || !r.Complete {
		t.Errorf("stream %+v", r)
	}
	if need, ok := needs[alarm.Resource{Group: "apps", Resource: "deployments"}]; !ok || need.Cluster || fields.Union(need.Namespaces["shop"]...).String() != "spec.replicas" {
		t.Errorf("needs %+v", needs)
	}
}

// countedNeeds counts the calls of SetNeeds.
type countedNeeds struct {
	Changes
	calls atomic.Int64
	last  atomic.Int64
}

func (c *countedNeeds) SetNeeds(needs objects.Needs) {
	c.calls.Add(1)
	c.last.Store(int64(len(needs)))
}

func (c *countedNeeds) SetReads(objects.Needs) {}

func TestNeedsAreCollectedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		compiler, err := match.NewCompiler()
		must(t, err)
		alarms, counted := NewAlarms(), &countedNeeds{}
		p := &Pipeline{Config: Config{Alarms: alarms, Changes: counted, Clock: clock.RealClock{}}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { must(t, p.followNeeds(ctx)) })
		for i := range 200 {
			time.Sleep(10 * time.Millisecond)
			resource := fmt.Sprintf("r%d", i)
			compiled, err := compiler.Compile(match.Definition{
				ID: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: resource}, UID: resource,
				Spec: v1alpha1.AlarmSpec{Changes: []v1alpha1.ChangeMatch{{Resource: v1alpha1.ChangeResource{APIGroup: "apps", Resource: resource}}}},
			})
			must(t, err)
			alarms.Set(resource, "1", compiled)
		}
		time.Sleep(2 * time.Second)
		if calls, last := counted.calls.Load(), counted.last.Load(); calls > 4 || last != 200 {
			t.Errorf("%d calls within two seconds, the last with %d resources, want at most 4, and 200", calls, last)
		}
		cancel()
		running.Wait()
	})
}

// A new leader with an empty disk gets the changes again that were not sent, and no others.
func TestANewLeaderSendsTheChangesThatWaited(t *testing.T) {
	s, first := newSimulation(t, 1), openOutbox(t)
	replicaOfChanges(t, s, first, func(ctx context.Context, handle objects.Handler) {
		must(t, handle(ctx, scaled(100, 3, 5)))
		must(t, handle(ctx, scaled(101, 5, 1)))
		entries, err := first.Pending(ctx, outbox.Query{Receiver: "hook", Lane: outbox.MainLane, Limit: 1})
		must(t, err)
		attempt, err := first.Prepare(ctx, "hook", outbox.MainLane, []int64{entries[0].ID}, "key", nil)
		must(t, err)
		_, err = first.Finish(ctx, attempt, outbox.Outcome{})
		must(t, err)
	})
	second := openOutbox(t)
	replicaOfChanges(t, s, second, func(ctx context.Context, handle objects.Handler) {
		streams, err := second.Streams.All(ctx)
		must(t, err)
		begin := streams[deployments]
		if begin.Position != 100 || begin.Complete || begin.Delivered.Position != 101 {
			t.Errorf("the stream begins as %+v, want at the change that was sent", begin)
		}
		for _, b := range []objects.Batch{scaled(100, 3, 5), scaled(101, 5, 1), scaled(102, 1, 2)} {
			b.Stream.Delivered = begin.Delivered
			must(t, handle(ctx, b))
		}
	})
	if got := notes(t, second); len(got) != 2 || !strings.HasSuffix(got[0], "1") || !strings.HasSuffix(got[1], "2") {
		t.Errorf("messages %q, want that of the change that waited and that of the new one", got)
	}
}

// A replica that led before must not compare with its old baselines, which another leader has
// passed.
func TestAFormerLeaderForgetsItsBaselines(t *testing.T) {
	s, first, second := newSimulation(t, 1), openOutbox(t), openOutbox(t)
	replicaOfChanges(t, s, first, func(ctx context.Context, handle objects.Handler) { must(t, handle(ctx, scaled(100, 3, 5))) })
	replicaOfChanges(t, s, second, func(ctx context.Context, handle objects.Handler) { must(t, handle(ctx, scaled(200, 5, 6))) })
	replicaOfChanges(t, s, first, func(ctx context.Context, _ objects.Handler) {
		streams, err := first.Streams.All(ctx)
		must(t, err)
		if r := streams[deployments]; r.Complete {
			t.Errorf("the old baselines are used: %+v", r)
		}
		data, err := first.Streams.BaselineData(ctx, deployments, []string{"u"})
		must(t, err)
		if len(data) > 0 {
			t.Errorf("an old baseline is kept: %+v", data)
		}
	})
}

func TestABatchOfChangesThatCannotBeDecidedIsRetried(t *testing.T) {
	m, _ := newTestMatcher(t, nil)
	compiler, err := match.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindClusterAlarm, Name: "all"}, UID: "all", Receivers: []string{"hook"},
		Spec: v1alpha1.AlarmSpec{Changes: []v1alpha1.ChangeMatch{{
			Resource: v1alpha1.ChangeResource{APIGroup: "apps", Resource: "deployments"}, Expression: "cluster.nodes > 0",
		}}},
	})
	must(t, err)
	m.alarms.Set("all", "1", compiled)
	m.enricher = &unreadables{nodes: "the Nodes are not known yet"}
	p := &Pipeline{Config: Config{Outbox: openOutbox(t), Clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))}, matcher: m}
	if err := p.handleChanges(t.Context(), scaled(100, 3, 5)); !errors.Is(err, errUndecided) {
		t.Errorf("err = %v, want %v", err, errUndecided)
	}
}

// problemReporter records the alarms that report a problem.
type problemReporter struct {
	noop
	problems map[string]string
}

func (r *problemReporter) Evaluated(id kube.Key, _ match.Outcome, err error, _ int64) {
	if err != nil {
		r.problems[id.Namespace+"/"+id.Name] = err.Error()
	}
}

func TestAlarmsOfObjectsWithoutALastKnownValueAreOverTheirBudget(t *testing.T) {
	m, _ := newTestMatcher(t, nil)
	compiler, err := match.NewCompiler()
	must(t, err)
	for id, resource := range map[kube.Key]string{
		{Kind: alarm.KindAlarm, Namespace: "shop", Name: "it"}:         "deployments",
		{Kind: alarm.KindClusterAlarm, Name: "all"}:                    "deployments",
		{Kind: alarm.KindAlarm, Namespace: "bank", Name: "elsewhere"}:  "deployments",
		{Kind: alarm.KindAlarm, Namespace: "shop", Name: "unaffected"}: "statefulsets",
		{Kind: alarm.KindAlarm, Namespace: "shop", Name: "states"}:     "deployments",
		{Kind: alarm.KindAlarm, Namespace: "shop", Name: "states-not"}: "statefulsets",
	} {
		r, spec := v1alpha1.ChangeResource{APIGroup: "apps", Resource: resource}, v1alpha1.AlarmSpec{}
		if strings.HasPrefix(id.Name, "states") {
			spec.States = []v1alpha1.StateMatch{{Resource: r, Expression: "true"}}
		} else {
			spec.Changes = []v1alpha1.ChangeMatch{{Resource: r}}
		}
		compiled, err := compiler.Compile(match.Definition{ID: id, UID: id.Name, Receivers: []string{"hook"}, Spec: spec})
		must(t, err)
		m.alarms.Set(id.Name, "1", compiled)
	}
	reporter := &problemReporter{problems: map[string]string{}}
	p := &Pipeline{Config: Config{
		Outbox: openOutbox(t), Clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), Alarms: m.alarms, Enricher: noop{}, Reporter: reporter, Dispatcher: noop{}, Namespaces: m.namespaces,
	}, matcher: m, states: newSweeps()}
	must(t, p.handleChanges(t.Context(), scaled(100, 3, 5)))
	if len(reporter.problems) > 0 {
		t.Errorf("problems %v of an object that is stored", reporter.problems)
	}
	tooLarge := scaled(101, 5, 6)
	tooLarge.Put[0].Data = nil
	must(t, p.handleChanges(t.Context(), tooLarge))
	if len(reporter.problems) != 3 || !strings.HasPrefix(reporter.problems["shop/it"], "changes and states of some objects of namespace shop are unknown") || reporter.problems["/all"] == "" || reporter.problems["shop/states"] == "" {
		t.Errorf("problems %v, want of the Alarms and of the ClusterAlarm", reporter.problems)
	}
}
