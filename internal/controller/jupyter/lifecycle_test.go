package jupyter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

func TestAManifestWithoutASpecBecomesANotebook(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("")
	s.awaitReady()
	s.g.Expect(s.now().Status).To(And(
		HaveField("URL", "http://nb."+s.namespace+".svc/"),
		HaveField("PodName", "nb-0"),
		HaveField("NodeName", "node-0"),
		HaveField("ReadyReplicas", int32(1)),
		HaveField("LastFailure", BeNil()),
	))
	for _, kind := range []string{v1alpha1.ConditionPodScheduled, v1alpha1.ConditionStorageReady, v1alpha1.ConditionAccessReady} {
		s.g.Expect(s.condition(kind).Status).To(Equal(metav1.ConditionTrue), kind)
	}
	for _, kind := range []string{v1alpha1.ConditionProgressing, v1alpha1.ConditionStalled, v1alpha1.ConditionSuspended, v1alpha1.ConditionUpdatePending} {
		s.g.Expect(s.condition(kind).Status).To(Equal(metav1.ConditionFalse), kind)
	}
	s.g.Expect(s.warnings()).To(BeEmpty())
	s.g.Expect(s.condition(v1alpha1.ConditionSuspended).LastTransitionTime).To(Equal(s.now().CreationTimestamp))
	var token corev1.Secret
	s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb-token"), &token)).To(Succeed())
	s.g.Expect(len(token.Data["token"])).To(BeNumerically(">=", 26))
}

func TestAnUnschedulableNotebookProgressesThenFailsThenRecovers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("schedulingGracePeriodSeconds: 3600\ntemplate: {spec: {nodeSelector: {" + s.namespace + ": here}}}")
	early := s.see(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonFailedScheduling)
	s.g.Expect(conditionOf(early, v1alpha1.ConditionProgressing).Status).To(Equal(metav1.ConditionTrue))
	s.g.Expect(conditionOf(early, v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
	s.g.Expect(s.warnings()).To(BeEmpty())

	// From here on the grace ends within seconds, and nothing else happens then.
	var pod corev1.Pod
	s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb-0"), &pod)).To(Succeed())
	s.change(func(j *v1alpha1.Jupyter) {
		j.Spec.SchedulingGracePeriodSeconds = new(int32(time.Since(pod.CreationTimestamp.Time)/time.Second) + 8)
	})
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonFailedScheduling)
	s.g.Expect(s.condition(v1alpha1.ConditionProgressing).Status).To(Equal(metav1.ConditionFalse))
	s.g.Eventually(s.warnings).Should(Equal(map[string]int{diagnosis.ReasonFailedScheduling: 1}))

	s.label("node-0", s.namespace, "here")
	s.awaitReady()
	s.g.Eventually(s.events).Should(ContainElement(HaveField("Reason", v1alpha1.ReasonRecovered)))
	s.g.Expect(s.condition(v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
	s.g.Expect(s.now().Status.LastFailure).To(HaveField("Reason", diagnosis.ReasonFailedScheduling))
}

func (s *scene) label(node, key, value string) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, key, value)
	s.g.Expect(s.Client.Patch(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

func TestAnImageThatFailsFiftyTimesIsReportedAtMostTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(byHand)
	pod := s.pod()
	const text = `failed to pull and unpack image "example.org/nb:nope": not found`
	for range 50 {
		s.kubelet.Waiting(t, pod, "ErrImagePull", text)
		s.g.Eventually(func() metav1.Condition { return s.condition(v1alpha1.ConditionReady) }).
			Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", Not(Equal(v1alpha1.ReasonStarting)))))
		s.kubelet.Waiting(t, pod, "ImagePullBackOff", `Back-off pulling image "example.org/nb:nope": ErrImagePull: `+text)
		s.kubelet.Event(t, pod, "Failed", "spec.containers{notebook}", "Error: ImagePullBackOff")
	}
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonImagePullBackOff)
	total := 0
	for _, n := range s.warnings() {
		total += n
	}
	s.g.Expect(total).To(BeNumerically("<=", 2), "%v", s.warnings())

	// Nor does the status go back to the stage before. It says something else meanwhile,
	// which shows that this was seen.
	s.kubelet.Waiting(t, pod, "ErrImagePull", `failed to pull and unpack image "example.org/nb:nope": no space left on device`)
	var c metav1.Condition
	s.g.Eventually(func() string {
		c = s.condition(v1alpha1.ConditionReady)
		return c.Message
	}).Should(ContainSubstring("is full"))
	s.g.Expect(c.Reason).To(Equal(diagnosis.ReasonImagePullBackOff))
}

func TestASecondFailureWithTheSameReasonIsReported(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(byHand)
	pod := s.pod()
	s.kubelet.Crashed(t, pod, "Error", 1)
	s.g.Eventually(s.warnings).Should(HaveKeyWithValue(diagnosis.ReasonCrashLoopBackOff, 1))
	s.kubelet.Crashed(t, pod, "Error", 1)
	s.g.Eventually(s.now).Should(HaveField("Status.LastFailure", HaveValue(HaveField("Count", BeEquivalentTo(2)))))
	s.g.Expect(s.warnings()).To(HaveKeyWithValue(diagnosis.ReasonCrashLoopBackOff, 1))
	s.kubelet.Crashed(t, pod, "Error", 2)
	s.g.Eventually(s.warnings).Should(HaveKeyWithValue(diagnosis.ReasonCrashLoopBackOff, 2))
	s.g.Expect(s.condition(v1alpha1.ConditionReady).Message).To(ContainSubstring("exit code 2"))
}

func TestAnOOMKillIsReportedAlsoAfterTheRecovery(t *testing.T) {
	t.Parallel()
	for name, quick := range map[string]bool{"seen while it lasted": false, "over before anyone looked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.create(byHand)
			pod := s.pod()
			s.kubelet.Running(t, pod, true)
			s.awaitReady()
			if !quick {
				s.kubelet.Crashed(t, pod, "OOMKilled", 137)
				s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonOOMKilled)
				s.kubelet.Running(t, pod, true)
			} else {
				s.kubelet.Restarted(t, pod, "OOMKilled", 137)
			}
			s.awaitReady()
			s.g.Eventually(s.warnings).Should(HaveKeyWithValue(diagnosis.ReasonOOMKilled, 1))
			s.g.Eventually(func() *v1alpha1.LastFailure { return s.now().Status.LastFailure }).Should(And(
				HaveField("Reason", diagnosis.ReasonOOMKilled),
				HaveField("Container", v1alpha1.NotebookContainer),
				HaveField("ExitCode", HaveValue(BeEquivalentTo(137))),
				HaveField("Object", v1alpha1.FailureObject{Kind: "Pod", Name: "nb-0"}),
			))
		})
	}
}

func TestAChangeWaitsForARestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("image: example.org/nb:1")
	s.awaitReady()
	first := s.pod().UID
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Image = "example.org/nb:2" })
	s.await(v1alpha1.ConditionUpdatePending, metav1.ConditionTrue, v1alpha1.ReasonRestartNeeded)
	s.g.Expect(s.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	s.g.Expect(s.now().Status.Summary).To(And(HaveField("State", v1alpha1.StateReady), HaveField("Reason", v1alpha1.ReasonRestartNeeded)))
	s.g.Eventually(s.events).Should(ContainElement(HaveField("Reason", v1alpha1.ReasonRestartNeeded)))
	s.g.Expect(s.pod().UID).To(Equal(first))

	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend = true })
	s.ExpectSuspended(t, s.now(), v1alpha1.StateSuspended)
	s.g.Expect(s.now().Status.PodName).To(BeEmpty())
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend = false })
	s.awaitReady()
	s.g.Expect(s.pod().Spec.Containers[0].Image).To(Equal("example.org/nb:2"))
	s.g.Expect(s.condition(v1alpha1.ConditionUpdatePending).Status).To(Equal(metav1.ConditionFalse))
}

func TestRecreateAppliesAChangeAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("image: example.org/nb:1\nupdateStrategy: {type: Recreate}")
	s.awaitReady()
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Image = "example.org/nb:2" })
	s.g.Eventually(func() string { return s.pod().Spec.Containers[0].Image }).Should(Equal("example.org/nb:2"))
	s.awaitReady()
}

// Nothing runs in a pod that cannot start, so nothing is lost when it is replaced.
func TestANotebookThatCannotStartIsReplacedByTheCorrectedOne(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("image: example.org/nb:nope\n" + byHand)
	s.kubelet.Waiting(t, s.pod(), "ImagePullBackOff", `Back-off pulling image "example.org/nb:nope"`)
	s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonImagePullBackOff)
	s.change(func(j *v1alpha1.Jupyter) {
		j.Spec.Image = "example.org/nb:1"
		j.Spec.Template = nil
	})
	s.awaitReady()
	s.g.Eventually(s.events).Should(ContainElement(HaveField("Reason", v1alpha1.ReasonRecovered)))
}

func TestARefusedChangeLeavesTheNotebookAsItIs(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("")
	s.awaitReady()
	first := s.pod().UID
	s.change(func(j *v1alpha1.Jupyter) {
		j.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{}}}
	})
	c := s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonInvalidSpec)
	s.g.Expect(c.Message).To(ContainSubstring("spec.template.spec.hostNetwork"))
	s.g.Expect(s.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	s.g.Expect(s.pod().UID).To(Equal(first))
	var set appsv1.StatefulSet
	s.g.Expect(s.Client.Get(t.Context(), keyOf(s.namespace, "nb"), &set)).To(Succeed())
	s.g.Expect(set.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
	s.g.Expect(set.Spec.Template.Spec.HostNetwork).To(BeFalse())
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend = true })
	s.g.Eventually(func() string { return s.now().Status.PodName }).Should(BeEmpty())
}

func TestANotebookThatIsDeletedWhileItStartsLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	j := s.create("storage: {size: 1Gi, retentionPolicy: {whenDeleted: Delete}}\naccess: {type: Ingress, host: a.example.org}")
	s.g.Expect(s.Client.Delete(t.Context(), j)).To(Succeed())
	s.g.Eventually(func(g Gomega) {
		for _, list := range []client.ObjectList{
			&appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &networkingv1.IngressList{}, &corev1.PodList{}, &corev1.SecretList{},
		} {
			g.Expect(s.Client.List(t.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
			g.Expect(list).To(HaveField("Items", BeEmpty()), "%T", list)
		}
	}).WithTimeout(patience).Should(Succeed())
}

func TestANotebookWithTheLongestNameRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	name := "n" + strings.Repeat("b", 51)
	s.g.Expect(s.Client.Create(t.Context(), cluster.Manifest(t, v1alpha1.KindJupyter, s.namespace, name, "storage: {size: 1Gi}"))).To(Succeed())
	s.g.Eventually(func() int32 {
		var j v1alpha1.Jupyter
		_ = s.Client.Get(t.Context(), keyOf(s.namespace, name), &j)
		return j.Status.ReadyReplicas
	}).Should(BeEquivalentTo(1))
}

// Each moment in which the server was ready used to end a failure and begin another one.
func TestANotebookThatIsBrieflyReadyInACrashLoopHasNotRecovered(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(byHand)
	pod := s.pod()
	s.kubelet.Running(t, pod, true)
	s.awaitReady()
	for range 2 {
		s.kubelet.Crashed(t, pod, "Error", 1)
	}
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonCrashLoopBackOff)
	since := s.now().Status.FailingSince
	for range 2 {
		s.kubelet.Running(t, pod, true)
		s.awaitReady()
		s.g.Expect(s.now().Status.Summary).To(And(
			HaveField("State", v1alpha1.StateDegraded), HaveField("Reason", diagnosis.ReasonCrashLoopBackOff), HaveField("FailingSince", Equal(since)),
		))
		s.kubelet.Crashed(t, pod, "Error", 1)
		s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonCrashLoopBackOff)
	}
	s.g.Expect(s.events()).NotTo(ContainElement(HaveField("Reason", v1alpha1.ReasonRecovered)))
}
