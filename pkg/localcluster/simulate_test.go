package localcluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bongsu-io/bongsu/internal/testing/size"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestSimulation(t *testing.T) {
	t.Parallel()
	c := start(t, localcluster.Config{Components: localcluster.Everything(), Nodes: 1})
	client := clientFor(t, c.RESTConfig())
	awaitNode(t, client, "node-0")
	for name, behaves := range map[string]func(*testing.T, *localcluster.Cluster, *namespaceClient){
		"a node joins and becomes ready":             nodeJoins,
		"a node without labels becomes ready":        bareNodeJoins,
		"a node with none is left alone":             nodeIsLeftAlone,
		"a node with not-ready fails and recovers":   nodeFails,
		"a Deployment's pods start and are stopped":  deploymentRuns,
		"a pod with crash keeps backing off":         podCrashes,
		"a pod with oom is OOMKilled":                podRunsOutOfMemory,
		"a pod with image-pull cannot be pulled":     imageIsMissing,
		"a pod with not-ready fails its probe":       podIsNotReady,
		"a pod with none is unchanged until deleted": podIsLeftAlone,
		"a Job completes":                            jobCompletes,
		"a claim is bound and its volume deleted":    claimIsBound,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behaves(t, c, newNamespace(t, client))
		})
	}
}

// awaitNode waits until pods can be scheduled to a node.
func awaitNode(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	w := &namespaceClient{Interface: client}
	NewWithT(t).Eventually(func() (bool, error) {
		node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(node.Spec.Taints) > 0 {
			return false, err
		}
		ready, err := w.nodeReady(t.Context(), name)()
		return ready == corev1.ConditionTrue, err
	}).Should(BeTrue())
}

// namespaceClient is a client with a namespace of its own.
type namespaceClient struct {
	kubernetes.Interface
	namespace string
}

func newNamespace(t *testing.T, client kubernetes.Interface) *namespaceClient {
	t.Helper()
	g := NewWithT(t)
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	// Pods are rejected until the controller manager has created this.
	g.Eventually(func() error {
		_, err := client.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	}).Should(Succeed())
	return &namespaceClient{Interface: client, namespace: ns.Name}
}

func (w *namespaceClient) createPod(t *testing.T, simulate string) *corev1.Pod {
	t.Helper()
	pod, err := w.CoreV1().Pods(w.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "it", Annotations: map[string]string{localcluster.Simulate: simulate}},
		Spec:       podSpec(),
	}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return pod
}

// podSpec is the spec of a pod on the node that no test changes.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: "node-0"},
		Containers:   []corev1.Container{{Name: "app", Image: "example.com/app:1"}},
	}
}

func (w *namespaceClient) pod(ctx context.Context, name string) func() (*corev1.Pod, error) {
	return func() (*corev1.Pod, error) {
		return w.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

func containerState(pod *corev1.Pod) corev1.ContainerState {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerState{}
	}
	return pod.Status.ContainerStatuses[0].State
}

func waitingReason(pod *corev1.Pod) string {
	if waiting := containerState(pod).Waiting; waiting != nil {
		return waiting.Reason
	}
	return ""
}

// events returns a function that lists the Events of an object.
func (w *namespaceClient) events(ctx context.Context, namespace, kind, name string) func() ([]corev1.Event, error) {
	selector := fmt.Sprintf("involvedObject.kind=%s,involvedObject.name=%s", kind, name)
	return func() ([]corev1.Event, error) {
		list, err := w.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		return list.Items, err
	}
}

func (w *namespaceClient) podEvents(ctx context.Context, name string) func() ([]corev1.Event, error) {
	return w.events(ctx, w.namespace, "Pod", name)
}

// event matches an Event of a kubelet.
func event(eventType, reason, message string) gomegatypes.GomegaMatcher {
	return And(
		HaveField("Type", eventType),
		HaveField("Reason", reason),
		HaveField("Message", message),
		HaveField("Source.Component", "kubelet"),
		HaveField("ReportingController", "kubelet"),
	)
}

func nodeJoins(t *testing.T, c *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	g.Expect(c.AddNode(t.Context(), "late")).To(Succeed())
	g.Eventually(w.nodeReady(t.Context(), "late")).Should(Equal(corev1.ConditionTrue))
	events := w.events(t.Context(), "default", "Node", "late")
	g.Eventually(events).Should(ContainElements(
		event("Normal", "Starting", "Starting kubelet."),
		event("Normal", "NodeReady", "Node late status is now: NodeReady"),
		HaveField("Reason", "RegisteredNode"),
	))
	g.Expect(events()).To(HaveEach(Or(
		HaveField("Source.Component", "node-controller"),
		HaveField("InvolvedObject", corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "late"}),
	)))
	node, err := w.CoreV1().Nodes().Get(t.Context(), "late", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(node.Labels).To(HaveKey(corev1.LabelInstanceTypeStable))
	g.Expect(node.Labels).To(HaveKey(corev1.LabelTopologyZone))
	g.Expect(node.Status.Capacity.Cpu().String()).To(Equal("4"))
	g.Expect(node.Status.NodeInfo.KubeletVersion).To(HavePrefix("kwok-")) // the operator dials no pods of such a node
}

func (w *namespaceClient) nodeReady(ctx context.Context, name string) func() (corev1.ConditionStatus, error) {
	return func() (corev1.ConditionStatus, error) {
		node, err := w.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status, err
			}
		}
		return corev1.ConditionUnknown, err
	}
}

func nodeFails(t *testing.T, c *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	ready := w.nodeReady(t.Context(), "shaky")
	g.Expect(c.AddNode(t.Context(), "shaky")).To(Succeed())
	g.Eventually(ready).Should(Equal(corev1.ConditionTrue))

	w.annotateNode(t, "shaky", `"not-ready"`)
	g.Eventually(ready).Should(Equal(corev1.ConditionFalse))
	events := w.events(t.Context(), "default", "Node", "shaky")
	g.Eventually(events).Should(ContainElement(event("Normal", "NodeNotReady", "Node shaky status is now: NodeNotReady")))

	w.annotateNode(t, "shaky", "null")
	g.Eventually(ready).Should(Equal(corev1.ConditionTrue))
	g.Eventually(func() map[string]int { return reasons(events()) }).Should(HaveKeyWithValue("NodeReady", BeNumerically(">=", 2)))
}

func (w *namespaceClient) annotateNode(t *testing.T, name, value string) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, localcluster.Simulate, value)
	_, err := w.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// withoutNodeEvents removes Events of other components than the kubelet and the
// scheduler. On a busy machine, a node can seem lost for a moment.
func withoutNodeEvents(events func() ([]corev1.Event, error)) func() ([]corev1.Event, error) {
	return func() ([]corev1.Event, error) {
		all, err := events()
		return slices.DeleteFunc(all, func(e corev1.Event) bool {
			return e.Reason != "Scheduled" && e.Source.Component != "kubelet"
		}), err
	}
}

// reasons counts Events by reason.
func reasons(events []corev1.Event, _ error) map[string]int {
	count := map[string]int{}
	for _, e := range events {
		count[e.Reason]++
	}
	return count
}

func deploymentRuns(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	labels := map[string]string{"app": "web"}
	spec := podSpec()
	spec.Containers = append(spec.Containers, corev1.Container{Name: "side", Image: "example.com/side"})
	_, err := w.AppsV1().Deployments(w.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		d, err := w.AppsV1().Deployments(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		return d.Status.AvailableReplicas, err
	}).Should(Equal(int32(1)))

	pods, err := w.CoreV1().Pods(w.namespace).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	pod := pods.Items[0]
	events := withoutNodeEvents(w.podEvents(t.Context(), pod.Name))
	g.Eventually(events).Should(ContainElements(
		event("Normal", "Pulled", `Container image "example.com/app:1" already present on machine and can be accessed by the pod`),
		event("Normal", "Pulling", `Pulling image "example.com/side"`),
		And(HaveField("Reason", "Created"), HaveField("InvolvedObject.FieldPath", "spec.containers{app}")),
		And(HaveField("Reason", "Started"), HaveField("InvolvedObject.FieldPath", "spec.containers{side}")),
	))
	g.Eventually(func() map[string]int { return reasons(events()) }).Should(Equal(
		map[string]int{"Scheduled": 1, "Pulling": 1, "Pulled": 2, "Created": 2, "Started": 2}))

	g.Expect(w.AppsV1().Deployments(w.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(events).Should(ContainElements(
		event("Normal", "Killing", "Stopping container app"),
		event("Normal", "Killing", "Stopping container side"),
	))
	g.Eventually(w.podCount(t.Context())).Should(BeZero())
}

func (w *namespaceClient) podCount(ctx context.Context) func() (int, error) {
	return func() (int, error) {
		list, err := w.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
		return len(list.Items), err
	}
}

func podCrashes(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	pod := w.createPod(t, localcluster.SimulateCrash)
	backOff := event("Warning", "BackOff",
		fmt.Sprintf("Back-off restarting failed container app in pod it_%s(%s)", w.namespace, pod.UID))
	// Repetitions increase the count of a single Event.
	g.Eventually(w.podEvents(t.Context(), "it")).Should(ContainElement(And(
		backOff,
		HaveField("Count", BeNumerically(">=", 2)),
		WithTransform(func(e corev1.Event) bool { return e.FirstTimestamp.Before(&e.LastTimestamp) }, BeTrue()),
	)))
	status := w.awaitBackOff(t, g)
	g.Expect(status.RestartCount).To(BeNumerically(">=", 2))
	g.Expect(status.LastTerminationState.Terminated.ExitCode).To(Equal(int32(1)))
}

// awaitBackOff waits until the container waits for its restart, and returns its status.
func (w *namespaceClient) awaitBackOff(t *testing.T, g *WithT) corev1.ContainerStatus {
	t.Helper()
	var pod *corev1.Pod
	g.Eventually(func() (_ string, err error) {
		pod, err = w.pod(t.Context(), "it")()
		return waitingReason(pod), err
	}).Should(Equal("CrashLoopBackOff"))
	return pod.Status.ContainerStatuses[0]
}

func podRunsOutOfMemory(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	w.createPod(t, localcluster.SimulateOOM)
	last := w.awaitBackOff(t, g).LastTerminationState.Terminated
	g.Expect(last.Reason).To(Equal("OOMKilled"))
	g.Expect(last.ExitCode).To(Equal(int32(137)))
}

func imageIsMissing(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	w.createPod(t, localcluster.SimulateImagePull)
	g.Eventually(w.podEvents(t.Context(), "it")).Should(ContainElements(
		event("Warning", "Failed", "Error: ErrImagePull"),
		event("Warning", "Failed", "Error: ImagePullBackOff"),
		event("Normal", "BackOff", `Back-off pulling image "example.com/app:1"`),
		And(HaveField("Reason", "Failed"), HaveField("Message", HavePrefix(`Failed to pull image "example.com/app:1": `))),
	))
	g.Eventually(w.pod(t.Context(), "it")).Should(WithTransform(waitingReason, Equal("ImagePullBackOff")))
}

func podIsNotReady(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	w.createPod(t, localcluster.SimulateNotReady)
	ready := func(pod *corev1.Pod) corev1.ConditionStatus {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && pod.Status.Phase == corev1.PodRunning {
				return c.Status
			}
		}
		return corev1.ConditionUnknown
	}
	g.Eventually(w.pod(t.Context(), "it")).Should(WithTransform(ready, Equal(corev1.ConditionFalse)))
	g.Eventually(w.podEvents(t.Context(), "it")).Should(ContainElement(
		event("Warning", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
	))
	healed := []byte(`{"metadata": {"annotations": {"` + localcluster.Simulate + `": null}}}`)
	_, err := w.CoreV1().Pods(w.namespace).Patch(t.Context(), "it", types.MergePatchType, healed, metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(w.pod(t.Context(), "it")).Should(WithTransform(ready, Equal(corev1.ConditionTrue)))
}

func bareNodeJoins(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	_, err := w.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	awaitNode(t, w, "bare")
}

func nodeIsLeftAlone(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	labels := map[string]string{localcluster.Simulate: localcluster.SimulateNone}
	_, err := w.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alone", Labels: labels}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.CoreV1().Pods(w.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "it"},
		Spec:       corev1.PodSpec{NodeName: "alone", Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(w.pod(t.Context(), "it"), "2s").Should(WithTransform(containerState, BeZero()))
	node, err := w.CoreV1().Nodes().Get(t.Context(), "alone", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(node.Status.NodeInfo.KubeletVersion).To(BeEmpty())
	_, err = w.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "alone", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

func podIsLeftAlone(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	w.createPod(t, localcluster.SimulateNone)
	events := withoutNodeEvents(w.podEvents(t.Context(), "it"))
	g.Eventually(events).Should(ConsistOf(HaveField("Reason", "Scheduled")))
	g.Consistently(w.pod(t.Context(), "it"), "2s").Should(WithTransform(containerState, BeZero()))

	g.Expect(w.CoreV1().Pods(w.namespace).Delete(t.Context(), "it", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(w.podCount(t.Context())).Should(BeZero())
	g.Expect(reasons(events())).To(Equal(map[string]int{"Scheduled": 1}))
}

func jobCompletes(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyNever
	unknown := map[string]string{localcluster.Simulate: "misspelt"} // which has no effect
	_, err := w.BatchV1().Jobs(w.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "work"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: unknown}, Spec: spec}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		job, err := w.BatchV1().Jobs(w.namespace).Get(t.Context(), "work", metav1.GetOptions{})
		return job.Status.Succeeded, err
	}).Should(Equal(int32(1)))
}

func claimIsBound(t *testing.T, _ *localcluster.Cluster, w *namespaceClient) {
	g := NewWithT(t)
	claims := w.CoreV1().PersistentVolumeClaims(w.namespace)
	_, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (corev1.PersistentVolumeClaimPhase, error) {
		claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
		return claim.Status.Phase, err
	}).Should(Equal(corev1.ClaimBound))

	g.Expect(claims.Delete(t.Context(), "data", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func() ([]corev1.PersistentVolume, error) {
		list, err := w.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		return list.Items, err
	}).Should(BeEmpty())
}

// API servers reject Events in a namespace that is being deleted, and a restarted KWOK
// finds leases that it does not hold. Neither must prevent the deletion of a pod.
func TestNamespaceWithPodsIsDeletedAfterARestartOfKWOK(t *testing.T) {
	size.NotInTest(t, "it takes a cluster of its own, as four other tests do")
	t.Parallel()
	const lease = 10 * time.Minute // longer than the test waits
	c := start(t, localcluster.Config{Components: localcluster.Everything(), Nodes: 1, NodeLease: lease})
	w := newNamespace(t, clientFor(t, c.RESTConfig()))
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
	}).WithTimeout(2*time.Minute).Should(BeTrue(), "before the old leases expire")
}
