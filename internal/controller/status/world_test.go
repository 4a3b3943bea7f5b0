package status_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/counters"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var (
	noon  = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	well  = status.Result{}
	fails = status.Result{
		Reason: v1alpha1.ReasonReceiverNotFound, Message: "AlarmReceiver ops does not exist: create it, or correct spec.receivers",
	}
	suspended = status.Result{Reason: v1alpha1.ReasonSuspended, Message: "suspended: spec.suspend is true"}
)

// world has an object, and an operator that reports on it with its own permissions.
type world struct {
	cluster  *cluster.Cluster
	object   status.AlarmObject
	key      kube.Key
	clock    *clocktesting.FakePassiveClock
	outbox   *outbox.Store
	counters *counters.Counters
	reporter *status.Reporter
	// writes counts the requests that change something, whatever is answered.
	writes atomic.Int64
}

// newWorld has an Alarm in a namespace of its own.
func newWorld(t *testing.T) *world {
	t.Helper()
	alarm := &v1alpha1.Alarm{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Shared(t).Namespace(t, nil), Name: "crashes"}}
	alarm.Spec.Match = []v1alpha1.EventMatch{{Kinds: []string{"Pod"}}}
	alarm.Spec.Receivers = []v1alpha1.ReceiverReference{{Name: "ops"}}
	return newWorldOf(t, "Alarm", alarm)
}

func newWorldOf(t *testing.T, kind string, object status.AlarmObject) *world {
	t.Helper()
	w := &world{
		cluster: cluster.Shared(t), object: object, clock: clocktesting.NewFakePassiveClock(noon),
		key: kube.Key{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()},
	}
	if err := w.cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cluster.Client.Delete(context.Background(), object) })
	t.Cleanup(func() { _ = w.outbox.Close() })
	w.restart(t)
	return w
}

// restart puts another operator in place of the one that was, with an empty disk.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.restartOn(t, t.TempDir())
}

// restartOn puts another operator in place of the one that was, with this disk.
func (w *world) restartOn(t *testing.T, dir string) {
	t.Helper()
	config := w.cluster.OperatorConfig(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{next: next, writes: &w.writes} })
	c, err := cluster.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if w.outbox != nil {
		if err := w.outbox.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if w.outbox, err = outbox.Open(t.Context(), dir, outbox.WithClock(w.clock)); err != nil {
		t.Fatal(err)
	}
	if err := w.outbox.Confirm(t.Context()); err != nil { // it leads
		t.Fatal(err)
	}
	w.counters = counters.New(w.outbox)
	w.reporter = status.New(c, c, w.clock, w.counters, w.key.Kind)
}

// count counts something for the object.
func (w *world) count(t *testing.T, change outbox.StatusCounts) {
	t.Helper()
	err := w.outbox.Commit(t.Context(), outbox.Change{Events: &outbox.EventStep{Position: 1}, Status: map[string]outbox.StatusCounts{w.key.String(): change}})
	if err != nil {
		t.Fatal(err)
	}
}

type counter struct {
	next   http.RoundTripper
	writes *atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

// reconcile reports a result and returns how many write requests it sent.
func (w *world) reconcile(t *testing.T, v status.Result) (reconcile.Result, int64) {
	t.Helper()
	before := w.writes.Load()
	result, err := w.try(t, func(context.Context, string) (status.Result, error) { return v, nil })
	if err != nil {
		t.Fatal(err)
	}
	return result, w.writes.Load() - before
}

func (w *world) try(t *testing.T, evaluate func(context.Context, string) (status.Result, error)) (reconcile.Result, error) {
	t.Helper()
	empty := w.object.DeepCopyObject().(status.AlarmObject)
	gone := func(key string) { t.Errorf("%s is said to be gone", key) }
	return w.reporter.Reconcile(t.Context(), w.key, empty, gone, evaluate)
}

func (w *world) status(t *testing.T) *v1alpha1.AlarmStatus {
	t.Helper()
	if err := w.cluster.Client.Get(t.Context(), w.key.NamespacedName(), w.object); err != nil {
		t.Fatal(err)
	}
	return w.object.AlarmStatus()
}

func (w *world) ready(t *testing.T) *metav1.Condition {
	t.Helper()
	condition := meta.FindStatusCondition(w.status(t).Conditions, v1alpha1.ConditionReady)
	if condition == nil {
		t.Fatal("there is no condition Ready")
	}
	return condition
}

// degraded returns the condition Degraded, nil if there is none.
func (w *world) degraded(t *testing.T) *metav1.Condition {
	t.Helper()
	return meta.FindStatusCondition(w.status(t).Conditions, v1alpha1.ConditionDegraded)
}

// events returns the Events on the object.
func (w *world) events(t *testing.T) []eventsv1.Event {
	t.Helper()
	namespace := w.key.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	var list eventsv1.EventList
	if err := w.cluster.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var events []eventsv1.Event
	for _, e := range list.Items {
		if e.Regarding.UID == w.object.GetUID() {
			events = append(events, e)
		}
	}
	return events
}

// counts returns the number of Events for each reason.
func (w *world) counts(t *testing.T) map[string]int {
	t.Helper()
	reasons := map[string]int{}
	for _, e := range w.events(t) {
		reasons[strings.Join([]string{e.Type, e.Reason}, " ")]++
	}
	return reasons
}

// annotate sets an annotation of the object.
func (w *world) annotate(t *testing.T, key, value string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := w.cluster.Client.Patch(t.Context(), w.object, patch); err != nil {
		t.Fatal(err)
	}
}

// changeSpec changes the spec of a receiver.
func (w *world) changeSpec(t *testing.T) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"timeoutSeconds":60}}`))
	if err := w.cluster.Client.Patch(t.Context(), w.object, patch); err != nil {
		t.Fatal(err)
	}
}
