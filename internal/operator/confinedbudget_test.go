package operator_test

import (
	"testing"

	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budget is a PodDisruptionBudget for the pods of an app.
func (s *confinement) budget(name, app string, mark func(*metav1.ObjectMeta)) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: s.meta(name, mark), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"bongsu.io/appservice": app}},
	}}
}

// A PodDisruptionBudget for all pods of a namespace would block every drain.
func TestTheOperatorLimitsOnlyTheEvictionOfAppPods(t *testing.T) {
	s := newConfinement(t)
	for _, b := range []*policyv1.PodDisruptionBudget{s.budget("theirs", "theirs", nil), s.budget("ours", "ours", asChild)} {
		s.Expect(s.Client.Create(t.Context(), b)).To(Succeed())
	}
	const onlyOfApps = "PodDisruptionBudgets only for the pods of an AppService"
	everywhere := s.budget("new", "new", asChild)
	everywhere.Spec.Selector = &metav1.LabelSelector{}
	s.expectRequests(map[string]requestCase{
		"a budget":                       {s.create(s.budget("new", "new", asChild)), allowed},
		"a budget that outlives its app": {s.create(s.budget("new", "new", asRetained)), allowed},
		"a budget without an owner":      {s.create(s.budget("new", "new", nil)), createsOnlyChildren},
		"a budget of another app":        {s.create(s.budget("new", "other", asChild)), onlyOfApps},
		"a budget of all pods":           {s.create(everywhere), onlyOfApps},
		"another limit":                  {s.patch(s.budget("ours", "", nil), `{"spec":{"maxUnavailable":1}}`), allowed},
		"other pods":                     {s.patch(s.budget("ours", "", nil), `{"spec":{"selector":{"matchLabels":{"bongsu.io/appservice":"other"}}}}`), onlyOfApps},
		"the limit of another budget":    {s.patch(s.budget("theirs", "", nil), `{"spec":{"maxUnavailable":1}}`), changesOnlyChildren},
		"the deletion of a budget":       {s.remove(s.budget("ours", "", nil)), allowed},
		"the deletion of another budget": {s.remove(s.budget("theirs", "", nil)), changesOnlyChildren},
		"a budget in kube-system":        {s.create(s.in(kubeSystem, s.budget("new", "new", asChild))), protects},
	})
}
