package chaos

import (
	"net/http"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// While the operator is down, a receiver with messages that wait is deleted, and another one
// of its name is created. kubectl replace --force does so, or another tenant who gets the
// same namespace.
func TestARecreatedReceiverGetsNoMessageOfItsPredecessor(t *testing.T) {
	for name, tc := range map[string]struct{ namespace, loseDisk bool }{
		"receiver recreated":                {},
		"receiver recreated, disk lost":     {loseDisk: true},
		"namespace recreated":               {namespace: true},
		"namespace recreated and disk lost": {namespace: true, loseDisk: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, cluster.Shared(t))
			former, next := newReceiver(t, "former"), newReceiver(t, "next")
			former.Always(sink.Status(http.StatusServiceUnavailable, "not now"))
			s.createTeam(former)
			s.createTeamAlarm()
			m := newManager(s, "--allowed-receiver-addresses", "127.0.0.0/8")
			m.startReady()
			s.burst(10)
			former.awaitMore(t, 1)
			gomega.NewWithT(t).Eventually(func() (int, error) {
				c, err := s.checkpoint()
				return len(c.Behind), err
			}).WithTimeout(patience).Should(gomega.BeNumerically(">", 0), "receivers that are behind")
			m.kill()
			s.burst(5)                  // these, too, happen before the new receiver exists
			time.Sleep(2 * time.Second) // the times of creation are whole seconds
			s.delete(&v1alpha1.AlarmReceiver{ObjectMeta: s.team()})
			if tc.namespace {
				s.delete(&v1alpha1.Alarm{ObjectMeta: s.team()})
				s.recreateNamespace()
			}
			s.createTeam(next)
			if tc.namespace {
				s.createTeamAlarm()
			}
			if tc.loseDisk {
				m.loseDisk()
			}
			time.Sleep(2 * time.Second)
			m.start()
			own := newEvent(s.namespace, "own")
			s.create(own)
			s.awaitAll(next, []string{own.Note})
			own = newEvent(s.namespace, "second")
			s.create(own)
			s.awaitAll(next, []string{own.Note})
			if report := next.Audit([]string{"own", "second"}, identify); len(report.Unexpected) > 0 {
				t.Errorf("the new receiver got messages of its predecessor: %q", head(report.Unexpected))
			}
		})
	}
}

func (s *fixture) team() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: "team"}
}

// createTeam creates an AlarmReceiver.
func (s *fixture) createTeam(r *receiver) {
	s.t.Helper()
	r.key = kube.Key{Kind: v1alpha1.KindAlarmReceiver, Namespace: s.namespace, Name: "team"}.String()
	s.create(&v1alpha1.AlarmReceiver{
		ObjectMeta: s.team(),
		Spec:       v1alpha1.AlarmReceiverSpec{Webhook: &v1alpha1.WebhookReceiver{HTTPServer: v1alpha1.HTTPServer{URL: v1alpha1.ServerURL(r.URL())}}},
	})
}

func (s *fixture) createTeamAlarm() {
	s.t.Helper()
	s.create(&v1alpha1.Alarm{ObjectMeta: s.team(), Spec: v1alpha1.NamespacedAlarmSpec{
		AlarmSpec: v1alpha1.AlarmSpec{Match: []v1alpha1.EventMatch{{Reasons: []string{reason}}}},
		Receivers: []v1alpha1.ReceiverReference{{Name: "team"}},
	}})
}

func (s *fixture) delete(o client.Object) {
	s.t.Helper()
	if err := s.Client.Delete(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// recreateNamespace deletes the namespace and creates it again. No controller empties it, so
// it takes the part of one.
func (s *fixture) recreateNamespace() {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.delete(ns)
	gomega.NewWithT(s.t).Eventually(func() error {
		if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
			return err
		}
		ns.Spec.Finalizers = nil
		if err := s.Client.SubResource("finalize").Update(s.t.Context(), ns); err != nil {
			return err
		}
		return s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(ns), ns)
	}).WithTimeout(patience).Should(gomega.Satisfy(apierrors.IsNotFound))
	s.NamespaceAgain(s.t, s.namespace)
}
