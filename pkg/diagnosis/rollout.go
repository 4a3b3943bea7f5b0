package diagnosis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// OutdatedPod returns the name of a pod that has a former template, is not ready, and is not replaced.
// Unless its podManagementPolicy is Parallel, a StatefulSet changes nothing until such a pod is ready.
// Without one, it returns "". The result is for [Workload.Outdated]. See
// https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback
func OutdatedPod(s *appsv1.StatefulSet, pods []*corev1.Pod) string {
	update := s.Spec.UpdateStrategy
	if s.Status.ObservedGeneration != s.Generation || s.Status.UpdateRevision == "" ||
		s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || update.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return ""
	}
	first, keep := 0, 0 // pods below keep have the former template on purpose
	if s.Spec.Ordinals != nil {
		first = int(s.Spec.Ordinals.Start)
	}
	if update.RollingUpdate != nil && update.RollingUpdate.Partition != nil {
		keep = int(*update.RollingUpdate.Partition)
	}
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(ordinal(a), ordinal(b)) })
	i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return !isReady(p) })
	if i < 0 || pods[i].DeletionTimestamp != nil || pods[i].Status.Phase == corev1.PodFailed || ordinal(pods[i])-first < keep {
		return ""
	}
	if revision := pods[i].Labels[appsv1.ControllerRevisionHashLabelKey]; revision == "" || revision == s.Status.UpdateRevision {
		return ""
	}
	return pods[i].Name
}

// ordinal returns the number at the end of the name of a pod of a StatefulSet.
func ordinal(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	return n
}

// adviseReplacement changes the advice of the causes in the outdated pod, which are not those of the
// present template. A deletion does not help while the node does not respond.
func (v *view) adviseReplacement(p *corev1.Pod, found []finding) []finding {
	for i := range found {
		if v.Outdated == p.Name && v.Outdated != "" && found[i].cause.Reason != ReasonNodeLost {
			found[i].cause.Advice = "delete the pod (kubectl delete pod -n " + p.Namespace + " " + p.Name + "): it has a former template, and its StatefulSet replaces it only once it is ready"
		}
	}
	return found
}
