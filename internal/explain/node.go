package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const kindNode = "Node"

// node explains a node by its conditions and taints, and counts its pods.
func (q *inquiry) node() error {
	q.explanation.passive = true
	n := &corev1.Node{}
	if readable, err := q.targetOf(kindNode, n); !readable {
		return err
	}
	var summary []string
	var pods []*corev1.Pod
	if q.logs != nil || q.isDrained(n) {
		var text string
		text, pods = q.podsOn(n.Name)
		if isFull(n, len(pods)) {
			text += ", and takes no more"
		}
		summary = append(summary, text)
	}
	if n.Spec.Unschedulable {
		summary = append(summary, "it is cordoned, so that it gets no new pods: kubectl uncordon "+n.Name)
	}
	if taints := taintsOf(n); len(taints) > 0 {
		summary = append(summary, "only pods that tolerate its taints can run on it: "+nameList(taints))
	}
	joins := q.clock.Since(n.CreationTimestamp.Time) < diagnosis.NodeSettlesAfter
	if joins {
		summary = append(summary, "it has just joined the cluster")
	}
	q.set(kindNode, Running, cmp.Or(strings.Join(summary, "; "), "it takes new pods"))
	for _, c := range n.Status.Conditions {
		if !joins || c.Status == corev1.ConditionUnknown {
			q.nodeCondition(n, c)
		}
	}
	q.workload.Known = append(q.workload.Known, diagnosis.FromNodeTaints(n, q.clock.Now())...)
	if q.isDrained(n) {
		q.blockedEvictions(n.Name, pods)
	}
	if len(q.workload.Known) > 0 {
		q.explanation.State = Waiting
	}
	return nil
}

// isFull reports whether a node has as many pods as its kubelet allows.
func isFull(n *corev1.Node, pods int) bool {
	most := n.Status.Allocatable.Pods().Value()
	return most > 0 && int64(pods) >= most
}

// isDrained reports whether the pods of a node should be evicted.
func (q *inquiry) isDrained(n *corev1.Node) bool {
	return n.Spec.Unschedulable && (q.logs != nil || q.clock.Since(cordonedAt(n)) > drainedAfter) || q.isStuck(n)
}

// drainedAfter is how long a drain usually takes. Until then, an overview does not list what it waits for.
const drainedAfter = 10 * time.Minute

// cordonedAt returns when the node was cordoned. It is zero if that is unknown.
func cordonedAt(n *corev1.Node) time.Time {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil {
			return t.TimeAdded.Time
		}
	}
	return time.Time{}
}

// podsOn returns the pods that run on the node, and a text with their number.
func (q *inquiry) podsOn(node string) (text string, pods []*corev1.Pod) {
	var list corev1.PodList
	read := q.list("pods", &list, func() {
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				pods = append(pods, p.DeepCopy())
			}
		}
	}, client.MatchingFields{"spec.nodeName": node})
	if !read {
		return "its pods are unknown", nil
	}
	return "it has " + plural(len(pods), "pod"), pods
}

// maxBlocked limits the budgets that an explanation of a node names.
const maxBlocked = 5

// blockedEvictions explains why a drain of a cordoned node does not end: a PodDisruptionBudget
// allows no eviction of one of its pods.
func (q *inquiry) blockedEvictions(node string, pods []*corev1.Pod) {
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		controller := metav1.GetControllerOf(p) // a drain leaves the pods of DaemonSets and of the node
		return p.DeletionTimestamp != nil || controller != nil && (controller.Kind == "DaemonSet" || controller.Kind == kindNode)
	})
	if len(pods) == 0 {
		return
	}
	var list policyv1.PodDisruptionBudgetList
	q.list("poddisruptionbudgets.policy", &list, func() {
		for i := range list.Items {
			b := &list.Items[i]
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err != nil || b.Status.DisruptionsAllowed > 0 || len(q.workload.Known) >= maxBlocked {
				continue
			}
			blocked := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.Namespace == b.Namespace && selector.Matches(labels.Set(p.Labels)) })
			if blocked < 0 {
				continue
			}
			q.workload.Known = append(q.workload.Known, diagnosis.Cause{
				Reason: policyv1.InsufficientPodsReason, Object: diagnosis.Object{Kind: kindNode, Name: node}, Node: node, Transient: true,
				Message: fmt.Sprintf("a drain cannot evict pod %q: PodDisruptionBudget %q of namespace %q allows no eviction; %d of %s healthy, and %d must be",
					pods[blocked].Name, b.Name, b.Namespace, b.Status.CurrentHealthy, plural(int(b.Status.ExpectedPods), "pod"), b.Status.DesiredHealthy),
				Advice: "run more pods, or change the budget so that one pod may be unavailable",
			})
			q.next = append(q.next, newReference(budgetKind, b.Namespace, b.Name, ", which protects it,"))
		}
	})
}

// taintsOf returns the taints of the node, except those that the node controller derives
// from what is explained anyway.
func taintsOf(n *corev1.Node) []string {
	var taints []string
	for _, t := range n.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			taints = append(taints, t.ToString())
		}
	}
	return taints
}

// pressures are the conditions of a node that must be False: api/core/v1/types.go.
var pressures = map[corev1.NodeConditionType][2]string{
	corev1.NodeMemoryPressure:     {"the node is low on memory, and evicts pods", "remove pods from the node, or set requests for memory"},
	corev1.NodeDiskPressure:       {"the node is low on disk space, and evicts pods", "free disk space on the node: remove images, logs or pods"},
	corev1.NodePIDPressure:        {"the node is low on process IDs, and evicts pods", "find the pod that starts too many processes"},
	corev1.NodeNetworkUnavailable: {"the network of the node is not set up", "check the network plugin and the routes of the cloud provider"},
}

// nodeProblems are conditions of the node-problem-detector that must be False:
// kubernetes/node-problem-detector/config.
var nodeProblems = map[corev1.NodeConditionType][2]string{
	"KernelDeadlock":              {"the kernel of the node hangs", "drain the node, and restart it"},
	"ReadonlyFilesystem":          {"a file system of the node has become read-only", "drain the node, and check its disks"},
	"FrequentKubeletRestart":      {"the kubelet of the node restarts often", "check the log of the kubelet on the node"},
	"FrequentContainerdRestart":   {"the container runtime of the node restarts often", "check the log of containerd on the node"},
	ntpProblem:                    {"the clock of the node is not synchronized", "check the NTP service of the node"},
	"FrequentUnregisterNetDevice": {"the node often unregisters network devices", "check the log of the kernel on the node"},
}

const ntpProblem corev1.NodeConditionType = "NTPProblem"

// nodeCondition adds the cause that a condition of the node shows. It only lists
// conditions of unknown types.
func (q *inquiry) nodeCondition(n *corev1.Node, c corev1.NodeCondition) {
	cause := diagnosis.Cause{
		Reason: c.Reason, Object: diagnosis.Object{Kind: kindNode, Name: n.Name}, Node: n.Name, Time: c.LastTransitionTime.Time, Transient: true,
	}
	pressure, isPressure := pressures[c.Type]
	problem, isProblem := nodeProblems[c.Type]
	switch {
	case c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown:
		cause.Reason = diagnosis.ReasonNodeLost
		cause.Message = fmt.Sprintf("node %q does not respond: %s", n.Name, c.Message)
		cause.Advice = "check the machine, its network and its kubelet"
	case c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse:
		cause.Message = "the kubelet reports that the node is not ready: " + c.Message
		cause.Advice = "check the kubelet, the container runtime and the network plugin on the node"
	case isPressure && c.Status == corev1.ConditionTrue:
		cause.Message, cause.Advice = pressure[0]+": "+c.Message, pressure[1]
	case isProblem && c.Status == corev1.ConditionTrue:
		cause.Message, cause.Advice = problem[0]+": "+c.Message, problem[1]
	case !isPressure && c.Type != corev1.NodeReady && len(q.explanation.Conditions) < maxConditions:
		q.explanation.Conditions = append(q.explanation.Conditions, short(metav1.Condition{
			Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime,
		}))
		return
	default:
		return
	}
	q.workload.Known = append(q.workload.Known, cause)
}
