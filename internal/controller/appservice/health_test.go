package appservice_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// asked is an app whose pods are asked every second.
const asked = `
healthCheck: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 3, timeoutSeconds: 3, failureThreshold: %d}
` + byHand

// answering is a server in a pod, which the test plays.
type answering struct {
	*httptest.Server
	// code is what it answers; asked counts how often it was asked.
	code, asked atomic.Int32
}

func newAnswering(t *testing.T) *answering {
	t.Helper()
	a := &answering{}
	a.code.Store(http.StatusOK)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.asked.Add(1)
		w.WriteHeader(int(a.code.Load()))
	}))
	t.Cleanup(a.Close)
	return a
}

// serve starts a pod with a server.
func (s *scene) serve(pod *corev1.Pod, server *httptest.Server) {
	s.t.Helper()
	ip := s.ServePod(s.t, server.Listener.Addr().String())
	patch := fmt.Appendf(nil, `{"status": {"podIP": %q, "podIPs": [{"ip": %q}]}}`, ip, ip)
	s.g.Expect(s.Client.Status().Patch(s.t.Context(), pod, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	s.kubelet.Running(s.t, pod, true)
}

// checked is an app of so many pods, each with a server in it.
func (s *scene) checked(size, failureThreshold int) ([]*corev1.Pod, []*answering) {
	s.t.Helper()
	s.create(fmt.Sprintf("size: %d", size) + fmt.Sprintf(asked, failureThreshold))
	return s.healthy(size)
}

// healthy serves each pod of the app, and waits until the app is healthy.
func (s *scene) healthy(size int) ([]*corev1.Pod, []*answering) {
	s.t.Helper()
	pods := s.podsWithNodes(size)
	servers := make([]*answering, size)
	for i, pod := range pods {
		servers[i] = newAnswering(s.t)
		s.serve(pod, servers[i].Server)
	}
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	return pods, servers
}

func TestAFailedCheckAndItsRecoveryAreReportedOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pods, servers := s.checked(3, 3)
	a := s.now()
	s.g.Expect([]int32{a.Status.Healthy, a.Status.Unhealthy, a.Status.Unknown}).To(Equal([]int32{3, 0, 0}))
	servers[1].code.Store(http.StatusInternalServerError)
	c := s.await(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHealthCheckFailed)
	s.g.Expect(c.Message).To(ContainSubstring(pods[1].Name))
	a = s.now()
	s.g.Expect([]int32{a.Status.Healthy, a.Status.Unhealthy, a.Status.Unknown}).To(Equal([]int32{2, 1, 0}))
	s.g.Expect(a.Status.PodStatuses).To(ConsistOf(And(
		HaveField("Name", pods[1].Name), HaveField("PodUID", string(pods[1].UID)), HaveField("Health", v1alpha1.PodUnhealthy),
		HaveField("Message", ContainSubstring("500")), HaveField("ConsecutiveFailures", BeNumerically(">=", 3)),
	)))
	s.await(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonHealthCheckFailed)
	s.await(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady) // that is the kubelet's to say
	s.g.Eventually(s.eventCount(v1alpha1.ReasonHealthCheckFailed)).Should(Equal(1))

	// Further failures cause no writes.
	asked, version := servers[1].asked.Load(), s.now().ResourceVersion
	s.g.Eventually(servers[1].asked.Load).WithTimeout(patience).Should(BeNumerically(">", asked+5))
	s.g.Expect(s.now().ResourceVersion).To(Equal(version))
	s.g.Expect(s.eventCount(v1alpha1.ReasonHealthCheckFailed)()).To(Equal(1))

	servers[1].code.Store(http.StatusFound) // a redirect is an answer
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.g.Eventually(s.eventCount(v1alpha1.ReasonHealthCheckRecovered)).Should(Equal(1))
	s.g.Expect(s.now().Status.PodStatuses).To(BeEmpty())
}

func TestFewerFailuresThanTheThresholdAreNotReported(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1" + fmt.Sprintf(asked, 3))
	pod := s.podsWithNodes(1)[0]
	var n atomic.Int32
	s.serve(pod, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%3 != 0 { // two failures, then a pass
			w.WriteHeader(http.StatusInternalServerError)
		}
	})))
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	version := s.now().ResourceVersion
	asked := n.Load()
	s.g.Eventually(n.Load).WithTimeout(patience).Should(BeNumerically(">", asked+9))
	s.g.Expect(s.now().ResourceVersion).To(Equal(version))
	s.g.Expect(s.eventCount(v1alpha1.ReasonHealthCheckFailed)()).To(BeZero())
}

// Those of the others are asked as often as before.
func TestAPodThatHangsDelaysNoOtherCheck(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	hold := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(hold); hanging.Close() })
	s.create("size: 2" + fmt.Sprintf(asked, 3))
	pods := s.podsWithNodes(2)
	other := newAnswering(t)
	s.serve(pods[0], hanging)
	s.serve(pods[1], other.Server)
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHealthCheckFailed)
	s.g.Expect(s.now().Status.PodStatuses).To(ConsistOf(And(HaveField("Name", pods[0].Name), HaveField("Message", ContainSubstring("within 3 s")))))
	asked := other.asked.Load()
	s.g.Eventually(other.asked.Load).WithTimeout(patience).Should(BeNumerically(">", asked+3))
}

func TestAPodThatOnlyHasOurLabelsIsNotChecked(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	_, servers := s.checked(1, 1)
	forged := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: "forged", Annotations: map[string]string{"bongsu-local/simulate": "none"},
			Labels: map[string]string{v1alpha1.LabelAppService: "web", "app.kubernetes.io/managed-by": "bongsu"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.org/forged"}}},
	}
	s.g.Expect(s.Client.Create(t.Context(), forged)).To(Succeed())
	server := newAnswering(t)
	s.serve(s.kubelet.Await(t, s.namespace, "forged"), server.Server)
	asked := servers[0].asked.Load()
	s.g.Eventually(servers[0].asked.Load).WithTimeout(patience).Should(BeNumerically(">", asked+3))
	s.g.Expect(server.asked.Load()).To(BeZero())
}

func TestAReplacedPodIsNoLongerChecked(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pods, servers := s.checked(1, 1)
	s.g.Expect(s.Client.Delete(t.Context(), pods[0])).To(Succeed())
	var next *corev1.Pod
	s.g.Eventually(func() string {
		for _, pod := range s.pods("web") {
			if pod.UID != pods[0].UID && pod.Spec.NodeName != "" {
				next = pod
				return pod.Name
			}
		}
		return ""
	}).WithTimeout(patience).ShouldNot(BeEmpty())
	server := newAnswering(t)
	s.serve(next, server.Server)
	s.g.Eventually(func() []string { return s.now().Status.Nodes }).WithTimeout(patience).Should(ConsistOf(next.Name))
	asked := servers[0].asked.Load()
	s.g.Eventually(server.asked.Load).WithTimeout(patience).Should(BeNumerically(">", 3))
	s.g.Expect(servers[0].asked.Load()).To(BeNumerically("<=", asked+1), "one may have been under way")
}

func TestReplacementsOfUnhealthyPodsAreLimited(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	check := strings.Replace(fmt.Sprintf(asked, 1), "failureThreshold: 1", "failureThreshold: 1, remedy: Restart, maxRestartsPerHour: 2", 1)
	s.create("size: 1" + check)
	seen := map[types.UID]bool{}
	broken := newAnswering(t)
	broken.code.Store(http.StatusInternalServerError)
	for range 3 {
		var pod *corev1.Pod
		s.g.Eventually(func() bool {
			for _, p := range s.pods("web") {
				if !seen[p.UID] && p.Spec.NodeName != "" {
					pod = p
				}
			}
			return pod != nil
		}).WithTimeout(patience).Should(BeTrue())
		seen[pod.UID] = true
		s.serve(pod, broken.Server)
	}
	asked := broken.asked.Load()
	s.g.Eventually(broken.asked.Load).WithTimeout(patience).Should(BeNumerically(">", asked+3))
	s.g.Expect(s.now().Status.RestartTimes).To(HaveLen(2))
	s.g.Expect(s.eventCount(v1alpha1.ReasonRestartedUnhealthyPod)()).To(Equal(2))
	for _, pod := range s.pods("web") {
		s.g.Expect(seen).To(HaveKey(pod.UID), "no third one was replaced")
	}
}

// The next leader goes on from what the status says.
func TestATakeoverRepeatsNoEvent(t *testing.T) {
	t.Parallel()
	s := sceneIn(t, cluster.Borrow(t))
	operator := s.StartOperator(t)
	_, servers := s.checked(2, 2)
	servers[0].code.Store(http.StatusInternalServerError)
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHealthCheckFailed)
	s.g.Eventually(s.eventCount(v1alpha1.ReasonHealthCheckFailed)).Should(Equal(1))
	s.g.Expect(operator.Stop()).To(Succeed())
	version := s.now().ResourceVersion
	asked := servers[0].asked.Load()
	s.StartOperator(t)
	s.g.Eventually(servers[0].asked.Load).WithTimeout(patience).Should(BeNumerically(">", asked+4))
	s.g.Expect(s.now().ResourceVersion).To(Equal(version))
	s.g.Expect(s.eventCount(v1alpha1.ReasonHealthCheckFailed)()).To(Equal(1))
	servers[0].code.Store(http.StatusOK)
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	s.g.Eventually(s.eventCount(v1alpha1.ReasonHealthCheckRecovered)).Should(Equal(1))
}

// A change of the check starts from nothing known.
func TestAChangedCheckStartsAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	_, servers := s.checked(1, 1)
	servers[0].code.Store(http.StatusNotFound)
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHealthCheckFailed)
	s.change(func(a *v1alpha1.AppService) { a.Spec.HealthCheck = nil })
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionUnknown, v1alpha1.ReasonNotRequested)
	asked := servers[0].asked.Load()
	time.Sleep(2 * time.Second) // for nothing to happen
	s.g.Expect(servers[0].asked.Load()).To(BeNumerically("<=", asked+1))
	s.g.Expect(s.now().Status.PodStatuses).To(BeEmpty())
}
