package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// The API server refuses Recreate with the limits of a former strategy.
func TestTheStrategyOfTheDeploymentFollowsTheSpec(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nstrategy: {type: Recreate}\ntemplate: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}")
	strategy := func() appsv1.DeploymentStrategy {
		if d := s.deployment(); d != nil {
			return d.Spec.Strategy
		}
		return appsv1.DeploymentStrategy{}
	}
	s.g.Eventually(strategy).WithTimeout(patience).Should(Equal(appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}))
	surge := func() *intstr.IntOrString {
		if update := strategy().RollingUpdate; update != nil {
			return update.MaxSurge
		}
		return nil
	}
	for _, tc := range []struct {
		asked v1alpha1.UpdateStrategy
		want  *intstr.IntOrString
	}{
		{v1alpha1.UpdateStrategy{}, new(intstr.FromInt32(0))},
		{v1alpha1.UpdateStrategy{Type: "Recreate"}, nil},
		{v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxSurge: new(intstr.FromString("50%"))}}, new(intstr.FromString("50%"))},
		{v1alpha1.UpdateStrategy{Type: "Recreate"}, nil},
	} {
		s.change(func(a *v1alpha1.AppService) { a.Spec.Strategy = tc.asked })
		s.g.Eventually(surge).WithTimeout(patience).Should(Equal(tc.want), "%+v", tc.asked)
	}
}

func TestANewPodCountsAfterMinReadySeconds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\nminReadySeconds: 300")
	s.g.Eventually(func() string { return conditionOf(s.now(), v1alpha1.ConditionReady).Message }).WithTimeout(patience).
		Should(Equal("1 of 1 pods are ready, 0 of them for 300 s"))
	s.change(func(a *v1alpha1.AppService) { a.Spec.MinReadySeconds = 0 })
	s.awaitReady()
}

func TestThePodsOfAnAppAreSpread(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 2\ntopologySpread: [{topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}]")
	s.awaitReady()
	nodes := map[string]bool{}
	for _, pod := range s.pods("web") {
		nodes[pod.Spec.NodeName] = true
	}
	s.g.Expect(nodes).To(HaveLen(2))
}

func (s *scene) budget() *policyv1.PodDisruptionBudget {
	var b policyv1.PodDisruptionBudget
	if err := s.Client.Get(s.t.Context(), s.key("web"), &b); err != nil {
		return nil
	}
	return &b
}

func TestTheDisruptionBudgetFollowsTheSpec(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 2\ndisruptionBudget: {minAvailable: 1}")
	s.awaitReady()
	s.g.Expect(s.budget().Spec.MinAvailable).To(HaveValue(Equal(intstr.FromInt32(1))))
	s.g.Eventually(func() int32 { return s.budget().Status.DisruptionsAllowed }).WithTimeout(patience).Should(BeEquivalentTo(1), "it finds the pods")
	s.change(func(a *v1alpha1.AppService) {
		a.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: new(intstr.FromString("50%"))}
	})
	limits := func() policyv1.PodDisruptionBudgetSpec {
		if b := s.budget(); b != nil {
			return b.Spec
		}
		return policyv1.PodDisruptionBudgetSpec{}
	}
	half := And(HaveField("MinAvailable", BeNil()), HaveField("MaxUnavailable", HaveValue(Equal(intstr.FromString("50%")))))
	s.g.Eventually(limits).WithTimeout(patience).Should(half)
	s.g.Expect(s.Client.Delete(t.Context(), s.budget())).To(Succeed())
	s.g.Eventually(limits).WithTimeout(patience).Should(half, "it is restored")
	s.change(func(a *v1alpha1.AppService) { a.Spec.DisruptionBudget = nil })
	s.g.Eventually(s.budget).WithTimeout(patience).Should(BeNil())
}

func TestADisruptionBudgetOfAnotherOwnerIsNotChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	theirs := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(7)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}
	s.g.Expect(s.Client.Create(t.Context(), theirs)).To(Succeed())
	s.create("size: 1\ndisruptionBudget: {maxUnavailable: 1}")
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonResourceConflict)
	s.change(func(a *v1alpha1.AppService) { a.Spec.DisruptionBudget = nil })
	s.awaitReady()
	s.g.Expect(s.budget().Spec.MaxUnavailable).To(HaveValue(Equal(intstr.FromInt32(7))))
}

// The pods run and are checked, although they have no budget.
func TestARefusedDisruptionBudgetStopsNothingElse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "budgets"}}
	quota.Spec.Hard = corev1.ResourceList{"count/poddisruptionbudgets.policy": resource.MustParse("0")}
	s.g.Expect(s.Client.Create(t.Context(), quota)).To(Succeed())
	s.g.Eventually(func() error { return s.hasUsage("budgets") }).WithTimeout(patience).Should(Succeed())
	s.create("size: 1\nhealthCheck: {httpGet: {port: 80}, periodSeconds: 1, failureThreshold: 1}\ndisruptionBudget: {maxUnavailable: 1}")
	s.await(v1alpha1.ConditionStalled, metav1.ConditionTrue, diagnosis.ReasonQuotaExceeded)
	s.await(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonReady)
	s.await(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonHealthCheckFailed)
	s.g.Expect(s.Client.Delete(t.Context(), quota)).To(Succeed())
	s.awaitReady()
	s.g.Eventually(s.budget).WithTimeout(patience).ShouldNot(BeNil())
}

func TestARetainedAppKeepsItsDisruptionBudgetUntilTheNextOne(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create("size: 1\ndeletionPolicy: Retain\ndisruptionBudget: {maxUnavailable: 1}")
	s.awaitReady()
	uid := s.budget().UID
	s.remove()
	s.g.Eventually(s.isGone(&v1alpha1.AppService{}, "web")).WithTimeout(patience).Should(BeTrue())
	s.g.Expect(s.budget()).To(And(HaveField("UID", uid), HaveField("DeletionTimestamp", BeNil())))
	s.create("size: 1\nbackup: {exec: {command: ['true']}}\ndisruptionBudget: {maxUnavailable: 1}")
	s.awaitReady()
	s.g.Expect(s.budget().UID).To(Equal(uid), "it is adopted")
	s.remove()
	s.awaitGone()
	s.g.Eventually(s.budget).WithTimeout(patience).Should(BeNil(), "no garbage collector deletes it")
}
