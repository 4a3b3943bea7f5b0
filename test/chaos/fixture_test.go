package chaos

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/progress"
)

// patience is the time limit for each step. The machine may be busy.
const patience = 3 * time.Minute

// fixture is a namespace, and a ClusterAlarm that sends its Events to all receivers of the
// test.
type fixture struct {
	*cluster.Cluster
	t         *testing.T
	namespace string
	receivers []*receiver
	managers  []*manager
	// regarding returns the Pod that an Event regards. If nil, the Pod has the Event's name.
	regarding func(event string) string
	// counts makes floods increase the counts of Events, instead of creating an Event for
	// each occurrence.
	counts bool
}

// clusterSpec returns the spec of a ClusterAlarmReceiver with these settings.
func clusterSpec(settings v1alpha1.AlarmReceiverSpec) v1alpha1.ClusterAlarmReceiverSpec {
	return v1alpha1.ClusterAlarmReceiverSpec{AlarmReceiverSpec: settings}
}

// newFixture creates a fixture with a receiver for each name. It creates no alarm if there
// are no names.
func newFixture(t *testing.T, c *cluster.Cluster, names ...string) *fixture {
	t.Helper()
	s := &fixture{Cluster: c, t: t, namespace: c.Namespace(t, nil)}
	var references []v1alpha1.ClusterReceiverReference
	for _, name := range names {
		r := newReceiver(t, name)
		s.receivers = append(s.receivers, r)
		name = s.namespace + "-" + name
		r.key = kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: name}.String()
		references = append(references, v1alpha1.ClusterReceiverReference{Name: name})
		s.create(&v1alpha1.ClusterAlarmReceiver{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       clusterSpec(v1alpha1.AlarmReceiverSpec{Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(r.URL())}}}),
		})
	}
	if len(names) == 0 {
		return s
	}
	s.create(&v1alpha1.ClusterAlarm{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: v1alpha1.ClusterAlarmSpec{
			AlarmSpec:         v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Reasons: []string{reason}}}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Receivers:         references,
		},
	})
	return s
}

// create creates an object that is deleted when the test ends.
func (s *fixture) create(o client.Object) {
	s.t.Helper()
	if err := s.Client.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := client.IgnoreNotFound(s.Client.Delete(context.Background(), o)); err != nil {
			s.t.Error(err)
		}
	})
}

// awaitAll waits until a receiver has accepted all expected Events.
func (s *fixture) awaitAll(r *receiver, expected []string) {
	s.t.Helper()
	if err := progress.UntilNoneIsLeft(patience, func() int { return r.missing(expected) }); err != nil {
		s.t.Fatalf("receiver %s did not accept all %d Events: %v", r.name, len(expected), err)
	}
}

// checkpoint returns the operator's checkpoint, which is empty before the first write.
func (s *fixture) checkpoint() (checkpoint.Checkpoint, error) {
	c, _, err := checkpoint.NewStore(s.Client, operatorNamespace).Read(s.t.Context())
	return c, err
}

// awaitOperatorEvent waits for an Event with this reason in the operator's namespace.
func (s *fixture) awaitOperatorEvent(reason string) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() (int, error) {
		var events eventsv1.EventList
		err := s.Client.List(s.t.Context(), &events, client.InNamespace(operatorNamespace), client.MatchingFields{"reason": reason})
		return len(events.Items), err
	}).WithTimeout(patience).Should(gomega.BeNumerically(">", 0), "number of Events with reason %s", reason)
}

// summarize reports what was delivered. It fails if a receiver lost an expected Event or got
// another one.
func (s *fixture) summarize(kills int, expected []string) {
	s.t.Helper()
	summary := fmt.Sprintf("%d Events, %d kills", len(expected), kills)
	for _, r := range s.receivers {
		report := r.Audit(expected, identify)
		summary += fmt.Sprintf("; %s: %s", r.name, report)
		if len(report.Lost)+len(report.Unexpected) > 0 {
			s.t.Errorf("receiver %s: %d Events lost, %d unexpected, want none of both; the first are %q and %q",
				r.name, len(report.Lost), len(report.Unexpected), head(report.Lost), head(report.Unexpected))
		}
	}
	s.t.Attr("summary", summary)
}

// head returns the first elements, for messages.
func head[T any](all []T) []T { return all[:min(len(all), 10)] }

// assertOnce fails if a receiver got an Event more than once. Each kill may repeat one Event:
// the one whose request was in flight.
func (s *fixture) assertOnce(kills ...kill) {
	s.t.Helper()
	for _, r := range s.receivers {
		s.assertNone(r, unexplained(r.repetitions(), kills))
	}
}

// assertNone fails if there are repetitions. It tolerates one for each request that timed out,
// because the machine may have stalled.
func (s *fixture) assertNone(r *receiver, again []repetition) {
	s.t.Helper()
	timeouts := 0
	for _, m := range s.managers {
		timeouts += m.timeouts(r)
	}
	if len(again) > 0 && timeouts > 0 {
		s.t.Logf("%d requests to receiver %s timed out", timeouts, r.name)
	}
	if len(again) > timeouts {
		s.t.Errorf("receiver %s got %d Events again without a reason, want none: %v", r.name, len(again), head(again))
	}
}

// simulation is a cluster of the test's own, in which simulated pods run. Its tests are
// parallel.
type simulation struct {
	*fixture
	g *gomega.WithT
}

func newSimulation(t *testing.T) *simulation {
	t.Helper()
	c := cluster.Start(t, cluster.Whole(3))
	return &simulation{fixture: &fixture{Cluster: c, t: t}, g: gomega.NewWithT(t)}
}

// newNamespace creates a namespace and waits until pods can be created in it.
func (w *simulation) newNamespace() string {
	w.t.Helper()
	namespace := w.Namespace(w.t, nil)
	w.g.Expect(w.AwaitAccount(w.t.Context(), namespace)).To(gomega.Succeed())
	return namespace
}

// each calls do for all numbers, eight at a time.
func (w *simulation) each(from, to int, do func(i int) error) {
	w.t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := from; i < to; i++ {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// requests returns the operator's requests since a time.
func (w *simulation) requests(since time.Time) []audit.Request {
	w.t.Helper()
	return slices.DeleteFunc(audit.Requests(w.t, w.AuditLog(), audit.Operator), func(r audit.Request) bool {
		return r.Received.Before(since)
	})
}

func count(requests []audit.Request, matches func(audit.Request) bool) int {
	found := 0
	for _, r := range requests {
		if matches(r) {
			found++
		}
	}
	return found
}

// child is a kind of object that the operator creates, or its children.
type child struct {
	suffix string
	list   func() client.ObjectList
}

// childrenOf returns the operator's objects of a kind in a namespace.
func (w *simulation) childrenOf(namespace string, c child) []client.Object {
	w.t.Helper()
	list := c.list()
	err := w.Client.List(w.t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/managed-by": "bongsu"})
	if err != nil {
		w.t.Fatal(err)
	}
	var objects []client.Object
	err = meta.EachListItem(list, func(o runtime.Object) error {
		objects = append(objects, o.(client.Object))
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return objects
}
