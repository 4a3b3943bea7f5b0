package jupyter_test

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// theFailing are notebooks that fail without anyone else's doing.
var theFailing = map[string]struct{ spec, reason string }{
	"invalid": {spec: "template: {spec: {hostNetwork: true}}", reason: diagnosis.ReasonInvalidSpec},
	"taken":   {reason: diagnosis.ReasonResourceConflict},
	"secret":  {spec: "auth: {tokenSecretRef: {name: missing}}", reason: v1alpha1.ReasonSecretNotFound},
}

// Failures from before the restart are already reported.
func TestARestartRepeatsNoEventAndRewritesNoStatus(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	s := &scene{Cluster: c, t: t, g: NewWithT(t), namespace: c.Namespace(t, nil)}
	first := c.StartOperator(t)
	s.make(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	var failing []client.Object
	expected := map[string]int{}
	for name, n := range theFailing {
		s.make(cluster.Manifest(t, v1alpha1.KindJupyter, s.namespace, name, n.spec))
		failing = append(failing, &v1alpha1.Jupyter{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})
		expected[name+" "+n.reason] = 1
	}
	s.g.Eventually(s.allEvents).Should(Equal(expected))
	s.g.Expect(first.Stop()).To(Succeed())
	before := s.versions(failing)

	restarted := time.Now()
	c.StartOperator(t)
	s.g.Eventually(func() int { return len(s.attemptedEvents(restarted)) }).Should(BeNumerically(">=", len(theFailing)))
	s.g.Expect(s.attemptedEvents(restarted)).To(HaveEach(HaveField("Code", http.StatusConflict)))
	s.g.Expect(s.allEvents()).To(Equal(expected))
	s.g.Expect(s.versions(failing)).To(Equal(before))
}

// attemptedEvents are the Events of the namespace that the operator has tried to create.
func (s *scene) attemptedEvents(since time.Time) []audit.Request {
	var attempts []audit.Request
	for _, r := range audit.Requests(s.t, s.AuditLog(), audit.Operator) {
		if r.Namespace == s.namespace && r.Resource == "events" && r.Verb == "create" && r.Received.After(since) {
			attempts = append(attempts, r)
		}
	}
	return attempts
}
