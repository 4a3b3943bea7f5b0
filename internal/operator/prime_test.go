package operator

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config"
	basealarm "github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/controller/alarms"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/policies"
	"github.com/bongsu-io/bongsu/internal/policies/specs"
)

// inForce contains compiled alarms by key.
type inForce map[string]*match.Alarm

func (a inForce) Has(string, string) bool                            { return false }
func (a inForce) NeedsOf(string) map[basealarm.Resource]fields.Shape { return nil }
func (a inForce) Set(key, _ string, compiled *match.Alarm)           { a[key] = compiled }
func (a inForce) Delete(key string)                                  { delete(a, key) }
func (a inForce) Deactivate(key, _ string)                           { delete(a, key) }

// prime primes alarms of both kinds, and returns those in force and their reconcilers.
func prime(t *testing.T, objects ...client.Object) (inForce, client.Client, *alarmControllers) {
	t.Helper()
	set := inForce{}
	c, all := primeInto(t, set, nil, objects...)
	return set, c, all
}

// begun is alarms.Dependencies.Begun.
func begun() bool { return true }

// primeInto primes alarms of both kinds, and returns their reconcilers.
func primeInto(t *testing.T, set alarms.Alarms, gate *policies.Gate, objects ...client.Object) (client.Client, *alarmControllers) {
	t.Helper()
	return primeWhen(t, begun, set, gate, objects...)
}

// primeWhen is primeInto for an operator that may have no position yet.
func primeWhen(t *testing.T, begun func() bool, set alarms.Alarms, gate *policies.Gate, objects ...client.Object) (client.Client, *alarmControllers) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := match.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	store, err := outbox.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithObjects(receiversOf(objects)...).WithStatusSubresource(&v1alpha1.Alarm{}).Build()
	d := alarms.Dependencies{
		Client: c, Compiler: compiler, Alarms: set, Policies: gate, Clock: realClock, Begun: begun,
		Changes:  struct{ alarms.Changes }{}, // these alarms name no resources
		Reporter: func(kind string) *status.Reporter { return status.New(c, c, realClock, counters.New(store), kind) },
	}
	all := &alarmControllers{alarm: alarms.NewAlarm(d), clusterAlarm: alarms.NewClusterAlarm(d)}
	if err := all.prime(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, all
}

func TestPrimePutsAlarmsOfBothKindsIntoForce(t *testing.T) {
	spec := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}}
	set, _, _ := prime(t,
		alarmOf("shop", "a", 1, spec),
		clusterAlarmOf("b", spec),
	)
	if diff := cmp.Diff([]string{"Alarm/shop/a", "ClusterAlarm//b"}, slices.Sorted(maps.Keys(set))); diff != "" {
		t.Error(diff)
	}
}

// Otherwise, an Event after Ready could be lost if the operator is killed.
func TestNoAlarmIsReadyBeforeThePositionIsStored(t *testing.T) {
	stored := false
	alarm := alarmOf("shop", "a", 1, v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{}}})
	c, all := primeWhen(t, func() bool { return stored }, inForce{}, nil, alarm)
	ready := func() (reconcile.Result, *metav1.Condition) {
		t.Helper()
		key := client.ObjectKeyFromObject(alarm)
		result, err := all.alarm.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		var object v1alpha1.Alarm
		if err := c.Get(t.Context(), key, &object); err != nil {
			t.Fatal(err)
		}
		return result, meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	}
	if result, condition := ready(); condition != nil || result.RequeueAfter <= 0 {
		t.Errorf("without a position, the condition is %v, and the next try is after %s", condition, result.RequeueAfter)
	}
	stored = true
	if _, condition := ready(); condition == nil || condition.Status != metav1.ConditionTrue {
		t.Errorf("with a position, the condition is %v", condition)
	}
}

// alarmOf returns an Alarm. Its age defines the order of creation.
func alarmOf(namespace, name string, age int, spec v1alpha1.AlarmSpec) *v1alpha1.Alarm {
	return &v1alpha1.Alarm{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + name), CreationTimestamp: metav1.Unix(int64(1e9-age), 0),
		},
		Spec: v1alpha1.NamespacedAlarmSpec{AlarmSpec: spec, Receivers: []v1alpha1.ReceiverReference{{Kind: v1alpha1.KindAlarmReceiver, Name: "ops"}}},
	}
}

// clusterAlarmOf returns a ClusterAlarm.
func clusterAlarmOf(name string, spec v1alpha1.AlarmSpec) *v1alpha1.ClusterAlarm {
	return &v1alpha1.ClusterAlarm{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ClusterAlarmSpec{AlarmSpec: spec, Receivers: []v1alpha1.ClusterReceiverReference{{Kind: v1alpha1.KindClusterAlarmReceiver, Name: "ops"}}},
	}
}

// receiversOf returns the receivers of alarms.
func receiversOf(alarms []client.Object) []client.Object {
	all := []client.Object{&v1alpha1.ClusterAlarmReceiver{ObjectMeta: metav1.ObjectMeta{Name: "ops"}}}
	seen := map[string]bool{"": true}
	for _, a := range alarms {
		if namespace := a.GetNamespace(); !seen[namespace] {
			seen[namespace] = true
			all = append(all, &v1alpha1.AlarmReceiver{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ops"}})
		}
	}
	return all
}

// largeSpec has sixteen expressions of maximum size, and a message.
func largeSpec(part, text string) v1alpha1.AlarmSpec {
	spec := v1alpha1.AlarmSpec{Message: v1alpha1.AlarmMessage{Text: text}}
	for range 16 {
		spec.Match = append(spec.Match, v1alpha1.EventMatch{Expression: "false" + strings.Repeat(" || "+part, (2048-5)/(len(part)+4))})
	}
	return spec
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Without limits they hold hundreds of MiB, and take more than a minute to compile.
func TestAHundredLargeAlarmsDoNotStopTheStart(t *testing.T) {
	costly := largeSpec("[1].map(x, x) == [1]", strings.Repeat("${1}", 50))
	plain := largeSpec(`event.reason == "Failed"`, "")
	small := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Expression: "event.count > 3"}}}
	objects := []client.Object{
		alarmOf("victim", "young", 1, small),
		clusterAlarmOf("all", small),
	}
	for i := range 50 {
		objects = append(objects,
			alarmOf("attacker", fmt.Sprint("costly-", i), 200+i, costly), alarmOf("attacker", fmt.Sprint("plain-", i), 100+i, plain))
	}
	before, begin := heap(), time.Now()
	set, c, all := prime(t, objects...)
	t.Attr("summary", fmt.Sprintf("the start with 100 large Alarms takes %s", time.Since(begin).Round(time.Millisecond)))
	clear(objects)
	held := heap() - before
	runtime.KeepAlive(set)
	if held > 64<<20 { // with the objects themselves, and the API server of the test
		t.Errorf("%d MiB are held", held>>20)
	}
	want := []string{
		"Alarm/attacker/plain-46", "Alarm/attacker/plain-47", "Alarm/attacker/plain-48", "Alarm/attacker/plain-49",
		"Alarm/victim/young", "ClusterAlarm//all",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(set))); diff != "" {
		t.Error(diff)
	}

	ready := func(name string) string {
		t.Helper()
		key := types.NamespacedName{Namespace: "attacker", Name: name}
		if _, err := all.alarm.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		var object v1alpha1.Alarm
		if err := c.Get(t.Context(), key, &object); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady).Reason
	}
	if got := ready("plain-0"); got != v1alpha1.ReasonOverBudget {
		t.Errorf("the reason is %s", got)
	}
	if err := c.Delete(t.Context(), alarmOf("attacker", "plain-49", 0, plain)); err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: "attacker", Name: "plain-49"}
	if _, err := all.alarm.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if got := ready("plain-45"); got != v1alpha1.ReasonReady {
		t.Errorf("the reason is %s after an older Alarm was deleted", got)
	}
}

// counted counts how often alarms were compiled.
type counted struct {
	inForce
	times map[string]int
}

func (a counted) Set(key, version string, compiled *match.Alarm) {
	a.times[key]++
	a.inForce.Set(key, version, compiled)
}

// An author can change an alarm all the time. Each change would use up to a second of a processor.
func TestChangesOfAlarmsAreCompiledAtALimitedPacePerNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		costly, small := largeSpec(`event.reason == "Failed"`, ""), v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Expression: "event.count > 3"}}}
		set := counted{inForce{}, map[string]int{}}
		_, all := primeInto(t, set, nil, alarmOf("attacker", "costly", 1, costly), alarmOf("attacker", "small", 1, small), alarmOf("victim", "small", 1, small))
		change := func(namespace, name string) time.Duration {
			t.Helper()
			result, err := all.alarm.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
			if err != nil {
				t.Fatal(err)
			}
			return result.RequeueAfter
		}
		clear(set.times)
		var delay time.Duration
		for range 100 {
			delay = change("attacker", "costly")
		}
		most := set.times["Alarm/attacker/costly"]
		if most < 2 || most > 10 || delay == 0 {
			t.Errorf("of 100 changes, %d were compiled at once, and the next one after %s", most, delay)
		}
		if change("attacker", "small"); set.times["Alarm/attacker/small"] != 1 {
			t.Error("a small Alarm waits for a large one")
		}
		for range 100 {
			change("victim", "small")
		}
		if set.times["Alarm/victim/small"] != 100 {
			t.Error("the Alarms of another namespace wait")
		}
		if set.inForce["Alarm/attacker/costly"] == nil {
			t.Error("the former version is not in force while the next one waits")
		}
		delay = change("attacker", "costly")
		time.Sleep(delay)
		if change("attacker", "costly"); set.times["Alarm/attacker/costly"] != most+1 {
			t.Errorf("the change is not compiled after %s", delay)
		}
	})
}

// withInactive also contains the UIDs of alarms that are inactive.
type withInactive struct {
	inForce
	inactive map[string]string
}

func (a withInactive) Set(key, version string, compiled *match.Alarm) {
	delete(a.inactive, key)
	a.inForce.Set(key, version, compiled)
}

func (a withInactive) Deactivate(key, uid string) {
	delete(a.inForce, key)
	a.inactive[key] = uid
}

func (a withInactive) Delete(key string) {
	delete(a.inForce, key)
	delete(a.inactive, key)
}

// closedGate returns a gate without policies, after the grace time.
func closedGate(t *testing.T) *policies.Gate {
	t.Helper()
	manifests, err := config.Objects(feature.All())
	if err != nil {
		t.Fatal(err)
	}
	expected, err := specs.FromManifests(manifests)
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	gate, err := policies.NewGate(t.Context(), policies.Dependencies{Expected: expected, Cache: &informertest.FakeInformers{}, Clock: clock, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Step(policies.Grace)
	return gate
}

// The states of an alarm that is inactive are kept, and those of one that is deleted are forgotten.
func TestAnAlarmThatCannotBeInForceIsHeldUntilItIsDeletedOrSuspended(t *testing.T) {
	valid := v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Expression: "event.count > 3"}}}
	large := largeSpec("[1].map(x, x) == [1]", strings.Repeat("${1}", 50))
	for name, tc := range map[string]struct {
		spec     v1alpha1.AlarmSpec
		closed   bool
		inactive bool
	}{
		"valid":                    {spec: valid},
		"invalid":                  {spec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Expression: "("}}}, inactive: true},
		"without memory":           {spec: large, inactive: true},
		"without policies":         {spec: valid, closed: true, inactive: true},
		"suspended":                {spec: v1alpha1.AlarmSpec{Suspend: true, Match: valid.Match}},
		"suspended while it waits": {spec: v1alpha1.AlarmSpec{Suspend: true, Match: valid.Match}, closed: true},
	} {
		t.Run(name, func(t *testing.T) {
			set := withInactive{inForce{}, map[string]string{}}
			var gate *policies.Gate
			if tc.closed {
				gate = closedGate(t)
			}
			c, all := primeInto(t, set, gate, alarmOf("shop", "web", 1, valid))
			object := alarmOf("shop", "web", 1, valid)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			object.Spec.AlarmSpec = tc.spec
			if err := c.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			reconcileIt := func() {
				if _, err := all.alarm.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}); err != nil {
					t.Fatal(err)
				}
			}
			reconcileIt()
			if set.inactive["Alarm/shop/web"] == "shopweb" != tc.inactive {
				t.Errorf("inactive are %v", set.inactive)
			}
			if err := c.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			reconcileIt()
			if len(set.inactive)+len(set.inForce) > 0 {
				t.Errorf("inactive are %v, in force %v, after the deletion", set.inactive, set.inForce)
			}
		})
	}
}

// An older alarm takes the memory of a younger one without a change of that.
func TestAnAlarmThatAnotherOneDisplacesIsHeld(t *testing.T) {
	set := withInactive{inForce{}, map[string]string{}}
	plain := largeSpec(`event.reason == "Failed"`, "")
	objects := []client.Object{}
	for i := range 4 {
		objects = append(objects, alarmOf("shop", fmt.Sprint("plain-", i), 1+i, plain))
	}
	c, all := primeInto(t, set, nil, objects...)
	older := alarmOf("shop", "older", 100, plain)
	if err := c.Create(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	if _, err := all.alarm.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(older)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Alarm/shop/plain-0"}, slices.Sorted(maps.Keys(set.inactive))); diff != "" {
		t.Error(diff)
	}
}
