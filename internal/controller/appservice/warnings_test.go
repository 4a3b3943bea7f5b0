package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// Each moment in which the pod was ready used to end a failure and begin another one.
func TestACrashLoopThatIsBrieflyReadyIsOneFailure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\n" + byHand)
	pod := s.podsWithNodes(1)[0]
	s.kubelet.Running(t, pod, true)
	s.awaitReady()
	crash := func() *metav1.Time {
		t.Helper()
		s.kubelet.Crashed(t, pod, "Error", 1)
		s.g.Eventually(func() metav1.ConditionStatus { return conditionOf(s.now(), v1alpha1.ConditionStalled).Status }).
			WithTimeout(patience).Should(Equal(metav1.ConditionTrue))
		return s.now().Status.FailingSince
	}
	since := crash()
	for _, reason := range []string{diagnosis.ReasonError, diagnosis.ReasonCrashLoopBackOff, diagnosis.ReasonCrashLoopBackOff} {
		s.kubelet.Running(t, pod, true)
		s.awaitReady()
		s.g.Expect(s.now().Status.Summary).To(And(
			HaveField("State", v1alpha1.StateDegraded), HaveField("Reason", reason), HaveField("FailingSince", Equal(since)),
		))
		degraded := s.await(v1alpha1.ConditionDegraded, metav1.ConditionTrue, reason)
		s.g.Expect(degraded.Message).To(HavePrefix(`the pods are ready, but have not run for long enough since a crash: container "app" ended with exit code 1: check its log`))
		s.g.Expect(crash()).To(Equal(since))
	}
	s.g.Expect(s.eventCount(v1alpha1.ReasonRecovered)()).To(BeZero())
}

func TestAnAppThatIsCreatedAgainRaisesNoWarning(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1")
	s.awaitReady()
	former := s.now().UID
	hold := func(finalizers string) {
		t.Helper()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+finalizers+`}}`))
		s.g.Expect(s.Client.Patch(t.Context(), d, patch)).To(Succeed())
	}
	hold(`["example.com/hold"]`) // the garbage collector needs time
	s.remove(client.PropagationPolicy(metav1.DeletePropagationBackground))
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
	s.create("size: 1")
	waits := s.await(v1alpha1.ConditionReady, metav1.ConditionFalse, diagnosis.ReasonResourceConflict)
	s.g.Expect(waits.Message).To(ContainSubstring("Deployment web of a deleted AppService with this name still exists: wait"))
	s.g.Expect(conditionOf(s.now(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
	hold("null")
	s.awaitReady()
	for _, e := range s.events() {
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.UID != former {
			t.Errorf("Warning %s: %s", e.Reason, e.Message)
		}
	}
}
