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

// patience is how long what must happen is waited for: the machine may be busy. Of
// what takes many steps it is the time for one.
const patience = 90 * time.Second

// stage is a namespace whose Events a ClusterAlarm sends to all receivers of the
// test.
type stage struct {
	*cluster.Cluster
	t         *testing.T
	namespace string
	receivers []*receiver
	managers  []*manager
	// regarding names the Pod that an Event of a flood regards; nil names it as the Event.
	regarding func(event string) string
}

// newStage sets the stage with a receiver for each name, and without an alarm if
// there is none.
func newStage(t *testing.T, c *cluster.Cluster, names ...string) *stage {
	t.Helper()
	s := &stage{Cluster: c, t: t, namespace: c.Namespace(t, nil)}
	var references []v1alpha1.ClusterReceiverReference
	for _, name := range names {
		r := newReceiver(t, name)
		s.receivers = append(s.receivers, r)
		name = s.namespace + "-" + name
		r.key = kube.Key{Kind: v1alpha1.KindClusterAlarmReceiver, Name: name}.String()
		references = append(references, v1alpha1.ClusterReceiverReference{Name: name})
		s.create(&v1alpha1.ClusterAlarmReceiver{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.ClusterAlarmReceiverSpec{Webhook: &v1alpha1.ClusterWebhookReceiver{ClusterHTTPServer: v1alpha1.ClusterHTTPServer{URL: v1alpha1.ServerURL(r.URL())}}},
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

// create creates an object for the length of the test.
func (s *stage) create(o client.Object) {
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

// awaitAll returns when a receiver has accepted all that was created.
func (s *stage) awaitAll(r *receiver, expected []string) {
	s.t.Helper()
	if err := progress.UntilNoneIsLeft(patience, func() int { return r.missing(expected) }); err != nil {
		s.t.Fatalf("missing at receiver %s: %v", r.name, err)
	}
}

// mirror is what the operator keeps in the cluster, zero if there is nothing yet.
func (s *stage) mirror() (checkpoint.Checkpoint, error) {
	m, _, err := checkpoint.NewStore(s.Client, operatorNamespace).Read(s.t.Context())
	return m, err
}

// awaitOperatorEvent returns when the operator has told its administrator of
// something.
func (s *stage) awaitOperatorEvent(reason string) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() (int, error) {
		var events eventsv1.EventList
		err := s.Client.List(s.t.Context(), &events, client.InNamespace(operatorNamespace), client.MatchingFields{"reason": reason})
		return len(events.Items), err
	}).WithTimeout(patience).Should(gomega.BeNumerically(">", 0), "Events %s", reason)
}

// conclude tells what became of what was created, and fails if a receiver lost
// something or got what is not of this stage.
func (s *stage) conclude(kills int, expected []string) {
	s.t.Helper()
	told := fmt.Sprintf("%d Events, %d kills", len(expected), kills)
	for _, r := range s.receivers {
		report := r.Audit(expected, identify)
		told += fmt.Sprintf("; %s: %s", r.name, report)
		if len(report.Lost)+len(report.Unexpected) > 0 {
			s.t.Errorf("%s lost %.10q, got unexpected %.10q", r.name, report.Lost, report.Unexpected)
		}
	}
	s.t.Attr("summary", told)
}

// assertOnce fails if a receiver got an Event more than once, but for one Event at
// each of the kills: the one that was under way.
func (s *stage) assertOnce(butAt ...kill) {
	s.t.Helper()
	for _, r := range s.receivers {
		s.assertNone(r, unexplained(r.repetitions(), butAt))
	}
}

// assertNone fails if there are repetitions, those aside that come of a machine that
// stood still.
func (s *stage) assertNone(r *receiver, again []repetition) {
	s.t.Helper()
	stoodStill := 0
	for _, m := range s.managers {
		stoodStill += m.gaveUp(r)
	}
	if len(again) > 0 && stoodStill > 0 {
		s.t.Logf("%s gave no answer in time on %d occasions", r.name, stoodStill)
	}
	if len(again) > stoodStill {
		s.t.Errorf("%s got %d once more without a reason: %v", r.name, len(again), again[:min(len(again), 10)])
	}
}

// world is a cluster of a test's own in which pods run, simulated.
type world struct {
	*stage
	g *gomega.WithT
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := cluster.Start(t, cluster.Whole(3))
	return &world{stage: &stage{Cluster: c, t: t}, g: gomega.NewWithT(t)}
}

// newNamespace is one in which pods can be made.
func (w *world) newNamespace() string {
	w.t.Helper()
	namespace := w.Namespace(w.t, nil)
	w.g.Eventually(func() error {
		return w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
	}).WithTimeout(patience).Should(gomega.Succeed())
	return namespace
}

// each does something for numbers, eight at a time.
func (w *world) each(from, to int, do func(i int) error) {
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

// requests are the operator's since then.
func (w *world) requests(since time.Time) []audit.Request {
	w.t.Helper()
	return slices.DeleteFunc(audit.Requests(w.t, w.AuditLog(), audit.Operator), func(r audit.Request) bool {
		return r.Received.Before(since)
	})
}

func count(requests []audit.Request, of func(audit.Request) bool) int {
	found := 0
	for _, r := range requests {
		if of(r) {
			found++
		}
	}
	return found
}

// child is a kind of what an object of ours is made of.
type child struct {
	suffix string
	list   func() client.ObjectList
}

// childrenOf lists those of a kind in a namespace.
func (w *world) childrenOf(namespace string, c child) []client.Object {
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
