package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bongsu-io/bongsu/internal/testing/node"
)

func TestSmoke(t *testing.T) {
	c := node.Start(t, node.Actor(t))
	g := NewWithT(t)
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	g.Eventually(func() bool {
		n, err := client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				t.Log(c.Status, c.Message)
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}, 90*time.Second, time.Second).Should(BeTrue())
	_, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "it"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: node.SandboxImage, ImagePullPolicy: corev1.PullNever}}}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	ok := g.Eventually(func() string {
		p, err := client.CoreV1().Pods("default").Get(t.Context(), "it", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		t.Log(p.Status.Phase, p.Status.PodIP)
		return string(p.Status.Phase)
	}, 60*time.Second, time.Second).Should(Equal("Running"))
	_ = ok
}
