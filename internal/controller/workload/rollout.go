package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// strategy is the strategy of an app's Deployment. All fields are set, so that an apply
// removes those of a former strategy.
func strategy(a *v1alpha1.AppService, pod *corev1.PodSpec) appsv1.DeploymentStrategy {
	if a.Spec.Strategy.Type == v1alpha1.UpdateStrategyRecreate {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	quarter := intstr.FromString("25%")
	update := appsv1.RollingUpdateDeployment{MaxUnavailable: &quarter, MaxSurge: &quarter}
	switch asked := a.Spec.Strategy.RollingUpdate; {
	case asked == nil && mountsClaim(pod):
		// A new pod must not wait for a volume that an old pod uses on another node.
		update = appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(1)), MaxSurge: new(intstr.FromInt32(0))}
	case asked != nil:
		update = appsv1.RollingUpdateDeployment{MaxUnavailable: asked.MaxUnavailable, MaxSurge: asked.MaxSurge}
	}
	return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &update}
}

// mountsClaim reports whether all pods share a claim. A claim of a single pod, in a volume of
// type ephemeral, does not count.
func mountsClaim(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

// topologySpread are the constraints of an app's pods. Each revision of the template is spread
// by itself: pods that a rollout will delete do not count.
func topologySpread(a *v1alpha1.AppService) []corev1.TopologySpreadConstraint {
	var all []corev1.TopologySpreadConstraint
	for _, s := range a.Spec.TopologySpread {
		all = append(all, corev1.TopologySpreadConstraint{
			TopologyKey: s.TopologyKey, MaxSkew: s.MaxSkew, WhenUnsatisfiable: s.WhenUnsatisfiable, MinDomains: s.MinDomains,
			LabelSelector:  &metav1.LabelSelector{MatchLabels: Selector(a)},
			MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
		})
	}
	return all
}

// AppDisruptionBudget is the PodDisruptionBudget of an app; nil if it has none. Pods that are
// not ready can always be evicted: an app that does not run must not block a drain.
func AppDisruptionBudget(a *v1alpha1.AppService) *policyv1.PodDisruptionBudget {
	asked := a.Spec.DisruptionBudget
	if asked == nil {
		return nil
	}
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: appMeta(a),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: asked.MinAvailable, MaxUnavailable: asked.MaxUnavailable,
			Selector:                   &metav1.LabelSelector{MatchLabels: Selector(a)},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}
