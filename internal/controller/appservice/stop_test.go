package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// A pod counts as stuck a minute after its grace period.
func TestAnAppReportsWhyTheOldPodStays(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nstrategy: {type: Recreate}\ntemplate: {spec: {terminationGracePeriodSeconds: 1}}")
	s.awaitReady()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.pods("web")[0].Name}}
	hold := func(finalizers string) {
		err := s.Client.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+finalizers+`}}`)))
		s.g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
	hold(`["example.com/hold"]`)
	s.change(func(a *v1alpha1.AppService) { a.Spec.Image = "example.org/app:2" })
	stalled := func() metav1.Condition { return conditionOf(s.now(), v1alpha1.ConditionStalled) }
	stuck := And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", diagnosis.ReasonFinalizersRemaining),
		HaveField("Message", ContainSubstring("example.com/hold")))
	s.g.Eventually(stalled).WithTimeout(2 * patience).Should(stuck)

	s.change(func(a *v1alpha1.AppService) { a.Spec.Suspend = true })
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Status", And(
		HaveField("State", v1alpha1.StateStopping), HaveField("Reason", diagnosis.ReasonFinalizersRemaining))))
	s.g.Expect(stalled()).To(stuck)

	hold("null")
	s.g.Eventually(s.now).WithTimeout(patience).Should(HaveField("Status.State", v1alpha1.StateSuspended))
	s.g.Expect(stalled().Status).To(Equal(metav1.ConditionFalse))
}
