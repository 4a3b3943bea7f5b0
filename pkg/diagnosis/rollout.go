package diagnosis

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

// SurgingDeployment returns the name of a Deployment if its rollout creates new pods while old
// ones run, and old ones are left. Otherwise it returns "". The result is for
// [Workload.Surging].
func SurgingDeployment(d *appsv1.Deployment) string {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || d.Status.UpdatedReplicas >= d.Status.Replicas {
		return ""
	}
	if update := d.Spec.Strategy.RollingUpdate; update != nil && update.MaxSurge != nil {
		if surge := update.MaxSurge.String(); surge == "0" || surge == "0%" {
			return ""
		}
	}
	return d.Name
}

// endOldPodsFirst is the advice if an old pod of a rollout has a volume that a new pod needs.
// Waiting does not help: the old pod runs until the new one is ready.
const endOldPodsFirst = "set spec.strategy to {type: Recreate}, so that old pods end before new ones are created"

// blockedByOldPods reports whether the names, separated by ", ", contain a pod of the Deployment
// whose rollout is in progress.
func (v *view) blockedByOldPods(names string) bool {
	if v.Surging == "" {
		return false
	}
	return slices.ContainsFunc(strings.Split(names, ", "), func(name string) bool {
		suffix, ours := strings.CutPrefix(name, v.Surging+"-")
		return ours && strings.Count(suffix, "-") == 1 // the hash of the template, and that of the pod
	})
}
