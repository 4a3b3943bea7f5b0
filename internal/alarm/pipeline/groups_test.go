package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// limitReporter records the alarms with too many groups.
type limitReporter struct {
	noop
	alarms map[kube.Key]bool
}

func (r limitReporter) GroupLimitReached(id kube.Key) { r.alarms[id] = true }

// groupingAlarms returns n alarms of a namespace that group by the name of the object.
func groupingAlarms(t *testing.T, n int) *Alarms {
	t.Helper()
	compiler, err := match.NewCompiler()
	must(t, err)
	all := NewAlarms()
	for i := range n {
		compiled, err := compiler.Compile(match.Definition{
			ID: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: fmt.Sprint("alarm-", i)}, UID: fmt.Sprint(i),
			Receivers: []string{"ops", "team"}, Spec: v1alpha1.AlarmSpec{
				Match: []v1alpha1.EventMatch{{Reasons: []string{fmt.Sprint("Reason", i)}}},
				Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}},
			},
		})
		must(t, err)
		all.Set(fmt.Sprint(i), "1", compiled)
	}
	return all
}

// Tenants can create Events for any number of groups.
func TestGroupsBeyondTheLimitAreOne(t *testing.T) {
	for name, tc := range map[string]struct {
		alarms, objects int
		want            int64 // messages for each receiver
		limited         int   // alarms that reach the limit
	}{
		"at the limit of an alarm":          {alarms: 1, objects: maxGroupsOfAlarm, want: maxGroupsOfAlarm},
		"beyond the limit of an alarm":      {alarms: 2, objects: maxGroupsOfAlarm + 10, want: 2 * (maxGroupsOfAlarm + 1), limited: 2},
		"beyond the limit of the namespace": {alarms: 21, objects: maxGroupsOfNamespace / 2 / 20, want: maxGroupsOfNamespace/2 + 21, limited: 21},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
			store, err := outbox.Open(t.Context(), t.TempDir(), outbox.WithClock(clock))
			must(t, err)
			defer func() { must(t, store.Close()) }()
			reporter := limitReporter{alarms: map[kube.Key]bool{}}
			p := New(Config{
				Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: groupingAlarms(t, tc.alarms),
				Dispatcher: noop{}, Enricher: noop{}, Reporter: reporter, Clock: clock, Log: logr.Discard(),
			})
			batch := source.Batch{Position: 1}
			for i := range tc.objects * tc.alarms {
				batch.Position++
				batch.Occurrences = append(batch.Occurrences, alarm.Occurrence{
					Increase: 1, Position: batch.Position, ObservedAt: clock.Now(), Event: alarm.Event{
						UID: fmt.Sprint(i), Count: 1, Namespace: "shop", Reason: fmt.Sprint("Reason", i%tc.alarms),
						Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i/tc.alarms)},
					},
				})
			}
			must(t, p.handle(t.Context(), batch))
			clock.Step(time.Hour)
			released, err := store.Release(t.Context())
			must(t, err)
			for _, receiver := range []string{"ops", "team"} {
				if got := released[receiver].Messages; got != tc.want {
					t.Errorf("%d messages to %s, want %d", got, receiver, tc.want)
				}
			}
			if len(reporter.alarms) != tc.limited {
				t.Errorf("reported %v, want %d alarms", slices.Collect(maps.Keys(reporter.alarms)), tc.limited)
			}
		})
	}
}

// A tenant can write Events that regard objects of other namespaces. A ClusterAlarm without a
// selector of namespaces receives them.
func TestAnEventAboutAnotherNamespaceJoinsAndResolvesNoGroupOfIt(t *testing.T) {
	for name, spec := range map[string]v1alpha1.AlarmSpec{
		"by default": {Group: &v1alpha1.AlarmGroup{By: []string{"regarding.kind", "regarding.namespace", "regarding.name"}, WaitSeconds: new(int32)}},
		"by a match": {Group: groupOfAnObject, Resolve: &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{"Recovered"}}}}},
		"of a Node":  {Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}, WaitSeconds: new(int32)}, Resolve: &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{"Recovered"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouted(t, spec, false)
			victim := "shop/web"
			if name == "of a Node" {
				victim = "default/web"
			}
			occ := happened(victim)[0]
			occ.Event.Reason, occ.ObservedAt = "Broken", r.Clock.Now()
			if name == "of a Node" {
				occ.Event.Regarding.Namespace = ""
			}
			r.handleAll(t, []alarm.Occurrence{occ})
			for i, reason := range []string{"Broken", "Recovered"} {
				forged := happened("evil/web")[0]
				forged.Event.Regarding = occ.Event.Regarding
				if name == "of a Node" { // which the API server requires
					forged.Event.Regarding.Namespace = "shop"
				}
				forged.Position, forged.Event.UID, forged.Event.Reason, forged.ObservedAt = uint64(2+i), fmt.Sprint("forged-", i), reason, r.Clock.Now()
				r.handleAll(t, []alarm.Occurrence{forged})
			}
			open, err := r.Outbox.Groups.Get(t.Context(), r.groupOf(&occ))
			must(t, err)
			if !open.Unresolved {
				t.Error("the group is resolved")
			}
			groups, _, err := r.Outbox.Groups.List(t.Context(), "ClusterAlarm//routed", 10)
			must(t, err)
			for _, g := range groups {
				if g.ID == r.groupOf(&occ) && g.Total != 1 {
					t.Errorf("the group has %d occurrences, want 1", g.Total)
				}
			}
		})
	}
}

// groupOf returns the key of an occurrence's group.
func (r *routed) groupOf(occ *alarm.Occurrence) string {
	a, _ := r.Alarms.withUID("routed")
	return alarm.GroupKey("routed", a.Grouping().Values(&occ.Event, &alarm.Object{})...)
}

// A tenant can create Events for any number of groups of a ClusterAlarm.
func TestEventsOfANamespaceLeaveGroupsOfAClusterAlarmToOthers(t *testing.T) {
	r := newRouted(t, v1alpha1.AlarmSpec{Group: groupOfAnObject}, false)
	var flood []alarm.Occurrence
	for i := range maxGroupsOfAlarm + 10 {
		flood = append(flood, happened(fmt.Sprint("evil/web-", i))[0])
		flood[i].Position, flood[i].Event.UID, flood[i].ObservedAt = uint64(i+1), fmt.Sprint("flood-", i), r.Clock.Now()
	}
	r.handleAll(t, flood)
	victim := happened("shop/web")[0]
	victim.Position, victim.Event.UID, victim.ObservedAt = uint64(len(flood)+1), "victim", r.Clock.Now()
	r.handleAll(t, []alarm.Occurrence{victim})
	open, err := r.Outbox.Groups.Get(t.Context(), r.groupOf(&victim))
	must(t, err)
	if len(open.Receivers) == 0 {
		t.Error("the Event of another namespace has no group of its own")
	}
}

// Tenants can create Events that resolve any number of groups.
func TestResolutionsWithoutAnOpenGroupStoreNothing(t *testing.T) {
	compiler, err := match.NewCompiler()
	must(t, err)
	compiled, err := compiler.Compile(match.Definition{
		ID: kube.Key{Kind: alarm.KindAlarm, Namespace: "shop", Name: "it"}, UID: "it", Receivers: []string{"ops"}, Spec: v1alpha1.AlarmSpec{
			Match: []v1alpha1.EventMatch{{Reasons: []string{"Failed"}}}, Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}},
			Resolve: &v1alpha1.AlarmResolve{Match: []v1alpha1.EventMatch{{Reasons: []string{"Works"}}}},
		},
	})
	must(t, err)
	alarms, store := NewAlarms(), openOutbox(t)
	alarms.Set("it", "1", compiled)
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	p := New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: alarms,
		Dispatcher: noop{}, Enricher: noop{}, Reporter: noop{}, Clock: clock, Log: logr.Discard(),
	})
	happen := func(position uint64, reason, name string) {
		must(t, p.handle(t.Context(), source.Batch{Position: position, Occurrences: []alarm.Occurrence{{
			Increase: 1, Position: position, ObservedAt: clock.Now(), Event: alarm.Event{
				UID: fmt.Sprint(position), Count: 1, Namespace: "shop", Reason: reason,
				Regarding: alarm.Reference{Kind: "Pod", Namespace: "shop", Name: name},
			},
		}}}))
	}
	happen(1, "Failed", "web")
	happen(2, "Works", "web")
	want := store.Size()
	for i := range uint64(200) {
		happen(3+i, "Works", []string{"web", fmt.Sprint("other-", i)}[i%2])
	}
	if diff := cmp.Diff(want, store.Size()); diff != "" || want.Held != 2 {
		t.Errorf("the size of the outbox changed from %+v: %s", want, diff)
	}
}

// Tenants open as many groups and windows as they can. Their messages are sent at once.
func TestStateOfTenantsLeavesSpaceForOthers(t *testing.T) {
	const limit = 16 << 20
	for name, spec := range map[string]v1alpha1.AlarmSpec{
		"groups": {Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}}},
		"thresholds": {
			Group:     &v1alpha1.AlarmGroup{By: []string{"regarding.name"}},
			Threshold: &v1alpha1.AlarmThreshold{Count: 1_000, WithinSeconds: 3_600},
		},
		"thresholds of one ClusterAlarm": {
			Group:     &v1alpha1.AlarmGroup{By: []string{"regarding.name"}},
			Threshold: &v1alpha1.AlarmThreshold{Count: 2, WithinSeconds: 3_600},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newStateFlood(t, limit, spec, name == "thresholds of one ClusterAlarm")
			for tenant := range 12 {
				f.happen(fmt.Sprint("tenant-", tenant), 100)
			}
			space, err := f.store.Space(t.Context())
			must(t, err)
			if !space.FitsMessage("Alarm/victim/", "r", limit/2/16) {
				t.Error("less than half of the file is free for messages")
			}
			if len(f.reporter.alarms) == 0 {
				t.Error("no alarm reports that it has too many groups")
			}
			clear(f.reporter.alarms)
			f.happen("victim", 1)
			if len(f.reporter.alarms) > 0 {
				t.Errorf("%v have too many groups, want none of the victim", f.reporter.alarms)
			}
		})
	}
}

// Alerts of open groups are stored, to be sent again.
func TestMessagesToRepeatLeaveSpaceForGroupsAndThresholds(t *testing.T) {
	const open = 60
	for name, spec := range map[string]v1alpha1.AlarmSpec{
		"a group":     {Group: &v1alpha1.AlarmGroup{By: []string{"regarding.name"}}},
		"a threshold": {Threshold: &v1alpha1.AlarmThreshold{Count: 1_000, WithinSeconds: 3_600}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newStateFlood(t, 16<<20, spec, false)
			f.receivers = f.receivers[:4]
			payload, err := message.Encode(message.Message{Text: strings.Repeat("x", 20_000)})
			must(t, err)
			var served []outbox.Entry // as after a failover
			for range open {
				f.position++
				id := fmt.Sprint("open-", f.position)
				served = append(served, outbox.Entry{
					Receiver: "r", Alarm: "Alarm/shop/open", Tenant: "Alarm/shop/", Key: id, Position: f.position, Count: 1, Payload: payload,
					Member: &outbox.Membership{Group: id, Event: group.Event{Message: group.Sent, At: f.clock.Now()}, Repeats: true},
				})
			}
			must(t, f.store.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: f.position}, Entries: served}))
			stored, err := f.store.Repeated(t.Context(), "r", f.clock.Now(), open, 1<<30)
			must(t, err)
			if len(stored) == 0 || len(stored) == open {
				t.Fatalf("%d of %d messages are stored, want as many as have space", len(stored), open)
			}
			f.happen("shop", 1)
			if len(f.reporter.alarms) > 0 {
				t.Errorf("%v have no space", f.reporter.alarms)
			}
		})
	}
}

// stateFlood is an operator with an alarm in each namespace, or with one ClusterAlarm.
type stateFlood struct {
	t         *testing.T
	p         *Pipeline
	store     *outbox.Store
	clock     *clocktesting.FakeClock
	reporter  limitReporter
	receivers []string
	define    func(namespace string)
	position  uint64
}

func newStateFlood(t *testing.T, limit int64, spec v1alpha1.AlarmSpec, ofCluster bool) *stateFlood {
	f := &stateFlood{t: t, clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), reporter: limitReporter{alarms: map[kube.Key]bool{}}}
	var err error
	f.store, err = outbox.Open(t.Context(), t.TempDir(), outbox.WithClock(f.clock), outbox.WithMaxBytes(limit), outbox.WithComposer(ComposeGroup))
	must(t, err)
	t.Cleanup(func() { must(t, f.store.Close()) })
	for i := range 16 {
		f.receivers = append(f.receivers, fmt.Sprint("AlarmReceiver/shop/", strings.Repeat("r", 250), i))
	}
	compiler, err := match.NewCompiler()
	must(t, err)
	alarms := NewAlarms()
	spec.Match = []v1alpha1.EventMatch{{}}
	f.define = func(namespace string) {
		id := kube.Key{Kind: alarm.KindAlarm, Namespace: namespace, Name: strings.Repeat("a", 250)}
		if ofCluster {
			id.Kind, id.Namespace = alarm.KindClusterAlarm, ""
		}
		key := id.Kind + id.Namespace
		compiled, err := compiler.Compile(match.Definition{ID: id, UID: key, Receivers: f.receivers, Spec: spec})
		must(t, err)
		alarms.Set(key, "1", compiled)
	}
	f.p = New(Config{
		Observe: func(context.Context, []alarm.Occurrence) {}, Outbox: f.store, Checkpoint: &memoryCheckpoint{}, Alarms: alarms,
		Dispatcher: noop{}, Enricher: noop{}, Reporter: f.reporter, Clock: f.clock, Log: logr.Discard(),
	})
	return f
}

// happen handles Events about n objects of a namespace, five at once, and takes all messages
// as sent.
func (f *stateFlood) happen(namespace string, n int) {
	f.t.Helper()
	f.define(namespace)
	for from := 0; from < n; from += 5 {
		var batch source.Batch
		for i := from; i < min(n, from+5); i++ {
			f.position++
			batch.Occurrences = append(batch.Occurrences, alarm.Occurrence{
				Increase: 2, Position: f.position, ObservedAt: f.clock.Now(), Event: alarm.Event{
					UID: fmt.Sprint(f.position), Count: 2, Namespace: namespace, Reason: "Reason",
					Regarding: alarm.Reference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprint("web-", i)},
				},
			})
		}
		batch.Position = f.position
		must(f.t, f.p.handle(f.t.Context(), batch))
		f.clock.Step(7 * time.Second)
		_, err := f.store.Release(f.t.Context())
		must(f.t, err)
		for _, receiver := range f.receivers {
			_, err := f.store.DropOlderThan(f.t.Context(), receiver, outbox.MainLane, f.clock.Now().Add(time.Hour))
			must(f.t, err)
		}
	}
}

// The pipeline has nothing to wait for while the receiver does not answer.
func TestTheNextMessageOfAGroupIsMadeAfterTheReceiverAcceptedTheLast(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := outbox.Open(t.Context(), dir, outbox.WithComposer(joinKeys))
		must(t, err)
		defer func() { must(t, store.Close()) }()
		p := New(Config{
			Outbox: store, Checkpoint: &memoryCheckpoint{}, Alarms: NewAlarms(), Dispatcher: noop{}, Enricher: noop{}, Reporter: noop{},
			Clock: clock.RealClock{}, Log: logr.Discard(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var releasing sync.WaitGroup
		releasing.Go(func() { must(t, p.releaseGroups(ctx)) })
		defer releasing.Wait()
		defer cancel()
		occur := func(position uint64) {
			must(t, store.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: position}, Entries: []outbox.Entry{{
				Receiver: "ops", Alarm: "Alarm/shop/it", Key: fmt.Sprint(position), Position: position, Count: 1, CreatedAt: time.Now(),
				Member: &outbox.Membership{Group: "a", Rule: group.Rule{Interval: time.Minute}, Event: group.Event{At: time.Now().Truncate(time.Second)}},
			}}}))
			p.wakeGroups()
		}
		expect := func(after time.Duration, want int64) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if n := store.Backlog("ops").Entries; n != want {
				t.Errorf("after %s, %d messages wait for the receiver, want %d", after, n, want)
			}
		}
		occur(1)
		expect(10*time.Second, 1)
		occur(2)
		expect(10*time.Minute, 1) // the receiver does not answer
		first, err := store.Pending(t.Context(), outbox.Query{Receiver: "ops", Lane: outbox.MainLane, Limit: 1})
		must(t, err)
		attempt, err := store.Prepare(t.Context(), "ops", outbox.MainLane, []int64{first[0].ID}, first[0].Key, nil)
		must(t, err)
		_, err = store.Finish(t.Context(), attempt, outbox.Outcome{})
		must(t, err)
		expect(59*time.Second, 0)
		expect(2*time.Second, 1)
	})
}
