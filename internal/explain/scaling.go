package explain

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// unprocessed is the summary of an object whose status is missing, or about a former spec.
const unprocessed = "the controller manager has not processed it yet"

const kindAutoscaler = "HorizontalPodAutoscaler"

// autoscaler explains a HorizontalPodAutoscaler by its conditions.
func (q *inquiry) autoscaler() error {
	q.explanation.passive = true
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	if readable, err := q.targetOf(kindAutoscaler, h); !readable {
		return err
	}
	target := h.Spec.ScaleTargetRef.Kind + " " + h.Spec.ScaleTargetRef.Name
	q.set(kindAutoscaler, Running, fmt.Sprintf("%s has %s; the limits are %d and %d",
		target, plural(int(h.Status.CurrentReplicas), "pod"), replicas(h.Spec.MinReplicas), h.Spec.MaxReplicas))
	if len(h.Status.Conditions) == 0 {
		q.set(kindAutoscaler, Waiting, unprocessed)
		q.limitWait(h.CreationTimestamp.Time, processedAfter)
	}
	for _, c := range h.Status.Conditions {
		switch {
		case c.Type == autoscalingv2.ScalingActive && c.Reason == "ScalingDisabled":
			q.set(kindAutoscaler, Stopped, target+" is scaled to 0, which disables autoscaling")
		case c.Type == autoscalingv2.ScalingLimited && c.Status == corev1.ConditionTrue && c.Reason == "TooManyReplicas":
			q.explanation.Summary += "; its metrics ask for more: raise spec.maxReplicas to allow it"
		}
	}
	if q.workload.Known = diagnosis.FromAutoscaler(h); len(q.workload.Known) > 0 {
		q.explanation.State, q.explanation.partial = Waiting, true // the pods themselves run
	}
	if len(q.workload.Known) == 0 && h.Status.DesiredReplicas >= h.Status.CurrentReplicas && h.Status.CurrentReplicas > 0 {
		q.next = append(q.next, q.scaleTarget(h)...)
	}
	if slices.ContainsFunc(q.workload.Known, func(c diagnosis.Cause) bool { return c.Reason == "FailedGetScale" }) {
		q.explanation.Summary = "the number of pods of " + target + " is unknown"
	}
	return nil
}

const kindBudget = "PodDisruptionBudget"

// disruptionBudget explains whether a PodDisruptionBudget blocks evictions, as in a drain.
func (q *inquiry) disruptionBudget() error {
	q.explanation.passive = true
	b := &policyv1.PodDisruptionBudget{}
	if readable, err := q.targetOf(kindBudget, b); !readable {
		return err
	}
	s := b.Status
	q.set(kindBudget, Running, fmt.Sprintf("%s may be evicted now; %d of %s healthy, and %d must be",
		plural(int(s.DisruptionsAllowed), "pod"), s.CurrentHealthy, plural(int(s.ExpectedPods), "pod"), s.DesiredHealthy))
	blocked := diagnosis.FromBudget(b)
	switch {
	case s.ObservedGeneration < b.Generation:
		q.set(kindBudget, Waiting, unprocessed)
		q.limitWait(changedAt(b, ""), processedAfter)
	case blocked != nil && blocked.Reason == policyv1.InsufficientPodsReason && q.logs == nil: // an overview shows what does not run
	case blocked != nil: // the pods themselves run
		q.explanation.State, q.explanation.partial = Waiting, true
		q.workload.Known = append(q.workload.Known, *blocked)
		q.next = append(q.next, q.unhealthy(b)...)
	case s.ExpectedPods == 0 && s.CurrentHealthy > 0:
		q.unmanagedPods(b)
	case s.ExpectedPods == 0:
		q.explanation.Summary = "its selector selects no pods, so that it protects none"
	case s.DisruptionsAllowed > 0:
		q.sharedPods(b)
	case s.CurrentHealthy <= s.DesiredHealthy:
		q.unhealthyPods(b)
	default:
		q.explanation.Summary = "recent evictions are still in progress; " + q.explanation.Summary
	}
	return nil
}

// unhealthy returns the pods of a budget that are not ready, if more of them would allow an eviction.
func (q *inquiry) unhealthy(b *policyv1.PodDisruptionBudget) []reference {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || b.Status.CurrentHealthy >= b.Status.ExpectedPods {
		return nil
	}
	pods, _ := q.podsWith(selector)
	var all []reference
	for _, p := range pods {
		if !podIsReady(p) && len(all) < maxReferences {
			all = append(all, newReference(podKind, p.Namespace, p.Name, ", which it counts,"))
		}
	}
	return all
}

// unmanagedPods explains a budget whose pods have no controller. The controller of budgets cannot find
// out how many pods there should be, and allows no eviction: pkg/controller/disruption/disruption.go.
func (q *inquiry) unmanagedPods(b *policyv1.PodDisruptionBudget) {
	q.explanation.State, q.explanation.partial = Waiting, true
	q.explanation.Summary = fmt.Sprintf("no pod may be evicted now; it selects %s without a controller", plural(int(b.Status.CurrentHealthy), "pod"))
	q.workload.Known = append(q.workload.Known, diagnosis.Cause{
		Reason: "UnmanagedPods", Object: diagnosis.Object{Kind: kindBudget, Name: b.Name},
		Message: "it selects pods that no controller manages, so that the number of expected pods is unknown, and none may be evicted",
		Advice:  "set minAvailable to a number, or create the pods with a Deployment or another controller",
	})
}

// sharedPods explains a budget whose pods also belong to another one. The API server evicts no such
// pod: pkg/registry/core/pod/storage/eviction.go.
func (q *inquiry) sharedPods(b *policyv1.PodDisruptionBudget) {
	if q.logs == nil { // an overview shows what does not run
		return
	}
	own, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		q.unread("pods", "", err)
		return
	}
	pods, _ := q.podsWith(own)
	var list policyv1.PodDisruptionBudgetList
	q.list("poddisruptionbudgets.policy", &list, func() {
		for i := range list.Items {
			other := &list.Items[i]
			selector, err := metav1.LabelSelectorAsSelector(other.Spec.Selector)
			if other.Name == b.Name || err != nil {
				continue
			}
			shared := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return selector.Matches(labels.Set(p.Labels)) })
			if shared < 0 {
				continue
			}
			q.explanation.State, q.explanation.partial = Waiting, true
			q.workload.Known = append(q.workload.Known, diagnosis.Cause{
				Reason: "MultiplePodDisruptionBudgets", Object: diagnosis.Object{Kind: kindBudget, Name: b.Name},
				Message: fmt.Sprintf("PodDisruptionBudget %[2]q also selects pod %[1]q, so that it cannot be evicted", pods[shared].Name, other.Name),
				Advice:  "change their selectors so that one of them selects the pod",
			})
			return
		}
	}, client.InNamespace(q.namespace))
}

// unhealthyPods explains why too few pods are healthy.
func (q *inquiry) unhealthyPods(b *policyv1.PodDisruptionBudget) {
	q.explanation.State, q.explanation.partial = Waiting, true
	q.explanation.Summary = fmt.Sprintf("no pod may be evicted now; %d of %s healthy, and %d must stay", b.Status.CurrentHealthy, plural(int(b.Status.ExpectedPods), "pod"), b.Status.DesiredHealthy)
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		q.unread("pods", "", err)
		return
	}
	pods, _ := q.podsWith(selector)
	q.workload.Pods = slices.DeleteFunc(pods, podIsReady)
	if len(q.workload.Pods) == 0 {
		if t, _ := q.templateOf(selector); t != nil {
			q.next = append(q.next, *t.reference(q.namespace))
		}
	}
	q.fallback = &diagnosis.Cause{
		Reason: policyv1.InsufficientPodsReason, Object: diagnosis.Object{Kind: kindBudget, Name: b.Name}, Transient: true,
		Message: fmt.Sprintf("%d of %s healthy, and a drain waits until %d are", b.Status.CurrentHealthy, plural(int(b.Status.ExpectedPods), "pod"), b.Status.DesiredHealthy+1),
		Advice:  "find out why the other pods are not ready" + evictionPolicy(b),
	}
}

// evictionPolicy returns how a drain can evict pods that are not healthy.
func evictionPolicy(b *policyv1.PodDisruptionBudget) string {
	if b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow {
		return ""
	}
	return "; with unhealthyPodEvictionPolicy AlwaysAllow, a drain can evict these pods"
}
