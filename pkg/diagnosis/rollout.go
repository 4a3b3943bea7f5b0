package diagnosis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
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

// KeepsOldPods reports whether the rollout of a Deployment ends no old pod before a new one is ready:
// maxUnavailable is 0, also after rounding. The result is for [Workload.KeepsOldPods].
func KeepsOldPods(d *appsv1.Deployment) bool {
	if SurgingDeployment(d) == "" || d.Spec.Strategy.RollingUpdate == nil {
		return false
	}
	wanted := int(ptr.Deref(d.Spec.Replicas, 1))
	most := ptr.Deref(d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
	unavailable, err := intstr.GetScaledValueFromIntOrPercent(&most, wanted, false)
	return err == nil && unavailable == 0
}

// letOldPodEnd is the advice if new pods of a rollout need what its old pods have.
const letOldPodEnd = "set maxUnavailable: 1 or maxSurge: 0 in spec.strategy.rollingUpdate, so that an old pod can end first"

// excludesOwn reports whether the pod cannot run on a node that runs another pod of its template.
func excludesOwn(p *corev1.Pod) bool {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector); err == nil && !selector.Empty() && selector.Matches(labels.Set(p.Labels)) {
				return true
			}
		}
	}
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.HostPort > 0 })
	})
}

// blockedByRollout explains a pod that no node can take because each one that could runs an old pod of
// the same rollout. It does not end one first.
func (s *podView) blockedByRollout(obstacles string, cause *Cause) {
	if !s.KeepsOldPods || !excludesOwn(s.pod) || !ownObstacle.MatchString(obstacles) {
		return
	}
	cause.Message += "; old pods of Deployment " + quote(line(s.Surging, maxName)) + " use these nodes, and its rollout ends none before a new pod is ready (maxUnavailable is 0)"
	cause.Advice, cause.LateAdvice, cause.Transient = letOldPodEnd, "", false
}

// ownObstacle matches the obstacles that another pod of the same template can be.
var ownObstacle = compile(`didn't match pod anti-affinity rules|free ports`)

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

// FormerJob is a Job with a former template of its CronJob, whose concurrencyPolicy is Forbid.
type FormerJob struct {
	Namespace, Name string
	// Change describes what is different in the template now.
	Change string
}

func (j *FormerJob) advice() string {
	return "delete the Job (kubectl delete job -n " + j.Namespace + " " + j.Name +
		"): it has a former template, and with concurrencyPolicy Forbid no other starts before it has ended; " + j.Change
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
		if job := v.FormerJob; job != nil {
			found[i].cause.Advice, found[i].cause.LateAdvice, found[i].cause.Transient = job.advice(), "", false
		}
		if v.Outdated == p.Name && v.Outdated != "" && found[i].cause.Reason != ReasonNodeLost {
			found[i].cause.LateAdvice = ""
			found[i].cause.Advice = "delete the pod (kubectl delete pod -n " + p.Namespace + " " + p.Name + "): it has a former template, and its StatefulSet replaces it only once it is ready"
		}
	}
	return found
}
