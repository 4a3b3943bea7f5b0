package diagnosis

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// schedulingAdvice maps the scheduler's reasons to advice.
var schedulingAdvice = []struct {
	text   *regexp.Regexp
	advice string
}{
	{regexp.MustCompile(`Insufficient ([\w./-]*\w)`), "request less ${1} in resources, or wait until more is available"},
	{regexp.MustCompile(`untolerated taint|taints? that the pod didn't tolerate`), "add tolerations for the nodes' taints, or let the pod run on other nodes"},
	{regexp.MustCompile(`node affinity/selector|didn't match node selector`), "check nodeSelector and affinity against the labels of the nodes"},
	{regexp.MustCompile(`anti-affinity|pod affinity|topology spread`), "check affinity and topologySpreadConstraints"},
	{regexp.MustCompile(`free ports`), "use another hostPort, or none"},
	{regexp.MustCompile(`Too many pods`), "wait until other pods end"},
	{regexp.MustCompile(`were unschedulable|had unknown conditions`), "wait until nodes are schedulable again"},
	{regexp.MustCompile(`volume node affinity|no available volume zone|PersistentVolume's node affinity`), "no suitable node can use its volume; change the pod's placement, or use another volume"},
	{regexp.MustCompile(`volume count`), "wait until a node can attach another volume"},
	{regexp.MustCompile(`ReadWriteOncePod`), "another pod uses its claim; stop that pod, or use another claim"},
}

var (
	nodesPrefix      = regexp.MustCompile(`^\d+/\d+ nodes are available: ?`)
	preemptionSuffix = regexp.MustCompile(`\.? ?(?:preemption: |no new claims to deallocate, preemption: ).*$`)
	deallocationNote = regexp.MustCompile(`\.? ?no new claims to deallocate,?`)
	insufficient     = regexp.MustCompile(`Insufficient (cpu|memory)\b`)
)

// schedulingFindings returns why the pod has no node.
func (s *podView) schedulingFindings() []finding {
	scheduled := condition(s.pod, corev1.PodScheduled)
	last := latest(s.events, "FailedScheduling")
	cause := s.cause(ReasonFailedScheduling, explanation{transient: true}).withEvent(last)
	text := ""
	if last != nil {
		text = last.Note
	}
	if scheduled != nil && scheduled.Status == corev1.ConditionFalse && scheduled.Message != "" {
		text = scheduled.Message
		cause.Time = scheduled.LastTransitionTime.Time
	}
	if scheduled != nil && scheduled.Reason == corev1.PodReasonSchedulingGated {
		cause.Message = "the pod's schedulingGates prevent its scheduling"
		cause.Advice = "wait until the component that set them removes them"
		return []finding{{cause: cause}}
	}
	if text == "" {
		return nil
	}
	text = stripNoise(text)
	if claim, ok := s.claimProblem(text, &cause); ok {
		return claim
	}
	s.describeUnschedulable(text, &cause)
	return []finding{{cause: cause}}
}

// describeUnschedulable sets the message and the advice from the scheduler's text.
func (s *podView) describeUnschedulable(text string, cause *Cause) {
	nodes := deallocationNote.ReplaceAllString(preemptionSuffix.ReplaceAllString(nodesPrefix.ReplaceAllString(text, ""), ""), "")
	nodes = sortObstacles(strings.TrimRight(nodes, ". "))
	cause.Message = "no node can take the pod"
	cause.Advice = schedulingAdviceFor(nodes)
	if strings.HasPrefix(text, "no nodes available") || s.Nodes != nil && s.Nodes.Total == 0 {
		cause.Message, cause.Advice = "the cluster has no nodes", "wait until it has nodes, or ask the cluster's administrator"
		return
	}
	if nodes != "" {
		cause.Message += ": " + excerpt(nodes)
	}
	if note := s.exceedsLargestNode(text); note != "" {
		cause.Message += " (" + note + ")"
	}
}

// sortObstacles sorts the scheduler's reasons without their node counts. The scheduler
// sorts them with the counts, so its order keeps changing.
func sortObstacles(nodes string) string {
	var obstacles []string
	for part := range strings.SplitSeq(nodes, ", ") {
		if last := len(obstacles) - 1; last >= 0 && withoutNodeCount(part) == part {
			obstacles[last] += ", " + part // the comma belongs to the text
			continue
		}
		obstacles = append(obstacles, part)
	}
	slices.SortFunc(obstacles, func(a, b string) int {
		return cmp.Or(cmp.Compare(withoutNodeCount(a), withoutNodeCount(b)), cmp.Compare(a, b))
	})
	return strings.Join(obstacles, ", ")
}

// withoutNodeCount strips the number of nodes.
func withoutNodeCount(part string) string { return strings.TrimLeft(part, "0123456789") }

// schedulingAdviceFor joins the advice for the first two obstacles.
func schedulingAdviceFor(text string) string {
	const most = 2
	var advice []string
	for _, a := range schedulingAdvice {
		at := a.text.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		if advice = append(advice, string(a.text.ExpandString(nil, a.advice, text, at))); len(advice) == most {
			break
		}
	}
	return strings.Join(advice, "; ")
}

// exceedsLargestNode compares the pod's requests with the largest node, for resources
// that the scheduler reports as insufficient.
func (s *podView) exceedsLargestNode(text string) string {
	if s.Nodes == nil {
		return ""
	}
	var notes []string
	for _, r := range []struct {
		name    corev1.ResourceName
		largest resource.Quantity
		unit    string
	}{{corev1.ResourceCPU, s.Nodes.CPU, " CPU"}, {corev1.ResourceMemory, s.Nodes.Memory, " of memory"}} {
		asked := requested(&s.pod.Spec, r.name)
		if !mentions(text, string(r.name)) || asked.Cmp(r.largest) <= 0 {
			continue
		}
		notes = append(notes, fmt.Sprintf("the largest node has %s%s; the pod requests %s",
			amount(r.largest, r.name), r.unit, amount(asked, r.name)))
	}
	return strings.Join(notes, "; ")
}

func mentions(text, resource string) bool {
	for _, m := range insufficient.FindAllStringSubmatch(text, -1) {
		if m[1] == resource {
			return true
		}
	}
	return false
}

// amount formats CPUs as a number, and memory in Gi or Mi.
func amount(q resource.Quantity, name corev1.ResourceName) string {
	const gi, mi = 1 << 30, 1 << 20
	value, unit := q.AsApproximateFloat64(), ""
	switch {
	case name == corev1.ResourceMemory && value >= gi:
		value, unit = value/gi, "Gi"
	case name == corev1.ResourceMemory && value >= mi:
		value, unit = value/mi, "Mi"
	}
	return strconv.FormatFloat(math.Round(value*1000)/1000, 'f', -1, 64) + unit
}

// requested returns the effective request of a pod. It is the sum of the containers that
// run together, or that of an init container and the sidecars before it, if that is more.
func requested(spec *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	var sidecars, most resource.Quantity
	for _, c := range spec.InitContainers {
		ask := c.Resources.Requests[name]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(ask)
			ask = resource.Quantity{}
		}
		ask.Add(sidecars)
		if ask.Cmp(most) > 0 {
			most = ask
		}
	}
	sum := sidecars
	for _, c := range spec.Containers {
		sum.Add(c.Resources.Requests[name])
	}
	if sum.Cmp(most) > 0 {
		most = sum
	}
	most.Add(spec.Overhead[name])
	return most
}
