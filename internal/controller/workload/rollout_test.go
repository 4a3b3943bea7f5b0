package workload

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

func rolling(unavailable, surge intstr.IntOrString) appsv1.DeploymentStrategy {
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable, MaxSurge: &surge},
	}
}

func TestTheStrategyOfAnApp(t *testing.T) {
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}
	ofEachPod := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	quarter, one, none := intstr.FromString("25%"), intstr.FromInt32(1), intstr.FromInt32(0)
	for name, tc := range map[string]struct {
		asked  v1alpha1.UpdateStrategy
		volume corev1.VolumeSource
		want   appsv1.DeploymentStrategy
	}{
		"unset":                       {want: rolling(quarter, quarter)},
		"unset, with a claim":         {volume: claim, want: rolling(one, none)},
		"unset, with a claim per pod": {volume: ofEachPod, want: rolling(quarter, quarter)},
		"Recreate":                    {asked: v1alpha1.UpdateStrategy{Type: "Recreate"}, volume: claim, want: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}},
		"limits, with a claim":        {asked: v1alpha1.UpdateStrategy{Type: "RollingUpdate", RollingUpdate: &v1alpha1.RollingUpdate{MaxSurge: &one, MaxUnavailable: &quarter}}, volume: claim, want: rolling(quarter, one)},
		"limits":                      {asked: v1alpha1.UpdateStrategy{Type: "RollingUpdate", RollingUpdate: &v1alpha1.RollingUpdate{MaxSurge: &none, MaxUnavailable: &one}}, want: rolling(one, none)},
	} {
		t.Run(name, func(t *testing.T) {
			a := app(func(a *v1alpha1.AppService) {
				a.Spec.Strategy = tc.asked
				a.Spec.Template = &corev1.PodTemplateSpec{}
				if tc.volume != (corev1.VolumeSource{}) {
					a.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: tc.volume}}
				}
			})
			pod, errs := AppPod(a, "image")
			g := NewWithT(t)
			g.Expect(errs).To(BeEmpty())
			g.Expect(AppDeployment(a, pod).Spec.Strategy).To(Equal(tc.want))
		})
	}
}

func TestTopologySpreadSelectsThePodsOfTheApp(t *testing.T) {
	g := NewWithT(t)
	a := app(func(a *v1alpha1.AppService) {
		a.Spec.TopologySpread = []v1alpha1.TopologySpread{{TopologyKey: "zone", MaxSkew: 2, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: new(int32(3))}}
		a.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}}
	})
	pod, errs := AppPod(a, "image")
	g.Expect(errs).To(BeEmpty())
	g.Expect(pod.Spec.TopologySpreadConstraints).To(ConsistOf(corev1.TopologySpreadConstraint{
		TopologyKey: "zone", MaxSkew: 2, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: new(int32(3)),
		LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(a)}, MatchLabelKeys: []string{"pod-template-hash"},
	}))
}

func TestTheDisruptionBudgetIsForThePodsOfTheApp(t *testing.T) {
	g := NewWithT(t)
	g.Expect(AppDisruptionBudget(app(nil))).To(BeNil())
	a := app(func(a *v1alpha1.AppService) {
		a.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MinAvailable: new(intstr.FromString("50%"))}
	})
	b := AppDisruptionBudget(a)
	g.Expect(b.Name).To(Equal("web"))
	g.Expect(metav1.IsControlledBy(b, a)).To(BeTrue())
	g.Expect(b.Spec.Selector.MatchLabels).To(Equal(Selector(a)))
	g.Expect(b.Spec.MinAvailable).To(HaveValue(Equal(intstr.FromString("50%"))))
	g.Expect(b.Spec.MaxUnavailable).To(BeNil())
	a.Spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain
	g.Expect(AppDisruptionBudget(a).OwnerReferences).To(BeEmpty(), "it stays with the Deployment")
}
