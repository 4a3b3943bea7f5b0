package localcluster_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// A namespace that is being deleted takes no Events any more, and KWOK that was
// restarted finds leases that it does not hold: neither may keep a pod from going.
func TestANamespaceGoesWithItsPodsEvenAfterARestart(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Minute // longer than the test waits
	c := start(t, localcluster.Config{Components: localcluster.Everything(), Nodes: 1, NodeLease: lease})
	w := newWorld(t, clientFor(t, c.RESTConfig()))
	g := NewWithT(t)
	spec := podSpec()
	spec.TerminationGracePeriodSeconds = new(int64(1))
	_, err := w.CoreV1().Pods(w.namespace).Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "it"}, Spec: spec}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() corev1.PodPhase {
		pod, err := w.CoreV1().Pods(w.namespace).Get(t.Context(), "it", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return pod.Status.Phase
	}).Should(Equal(corev1.PodRunning))

	g.Expect(c.Restart(t.Context(), localcluster.Kwok)).To(Succeed())
	g.Expect(w.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func() bool {
		_, err := w.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).WithTimeout(2*time.Minute).Should(BeTrue(), "sooner than the former leases expire")
}
