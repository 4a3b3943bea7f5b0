package jupyter_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The pod counts as stuck a minute after its grace period.
func TestASuspendedNotebookReportsWhyItsPodStays(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("template: {spec: {terminationGracePeriodSeconds: 1}}")
	s.awaitReady()
	pod := s.pod()
	hold := func(finalizers string) {
		err := s.Client.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+finalizers+`}}`)))
		s.g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
	hold(`["example.com/hold"]`)
	t.Cleanup(func() {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nb-0"}}
		_ = s.Client.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))
	})
	s.change(func(j *v1alpha1.Jupyter) { j.Spec.Suspend = true })
	s.await(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonStopping)
	s.g.Expect(s.now().Status.State).To(Equal(v1alpha1.StateStopping))

	s.g.Eventually(func() metav1.Condition { return s.condition(v1alpha1.ConditionStalled) }).WithTimeout(2 * patience).Should(And(
		HaveField("Status", metav1.ConditionTrue),
		HaveField("Reason", diagnosis.ReasonFinalizersRemaining),
		HaveField("Message", ContainSubstring("example.com/hold")),
	))
	s.g.Expect(s.now().Status).To(And(
		HaveField("State", v1alpha1.StateStopping), HaveField("Reason", diagnosis.ReasonFinalizersRemaining), HaveField("FailingSince", Not(BeNil()))))
	s.g.Eventually(s.warnings).Should(HaveKeyWithValue(diagnosis.ReasonFinalizersRemaining, 1))

	hold("null")
	s.g.Eventually(func() error { return s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) }).Should(Satisfy(apierrors.IsNotFound))
	s.g.Eventually(s.now).Should(HaveField("Status.State", v1alpha1.StateSuspended))
	s.ExpectSuspended(t, s.now(), v1alpha1.StateSuspended)
	s.g.Expect(s.now().Status.FailingSince).To(BeNil())
	for _, e := range s.events() {
		s.g.Expect(e.Reason).NotTo(Equal(v1alpha1.ReasonRecovered), e.Message)
	}
}
