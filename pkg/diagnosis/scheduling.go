package diagnosis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	nodesPrefix      = compile(`^\d+/\d+ nodes are available: ?`)
	preemptionSuffix = compile(`\.? ?(?:(?:no new claims to deallocate|still not schedulable), )?preemption: .*$`)
	deallocationNote = compile(`\.? ?no new claims to deallocate,?`)
)

// schedulingFindings returns why the pod has no node.
func (s *podView) schedulingFindings() []finding {
	scheduled := condition(s.pod, corev1.PodScheduled)
	last := s.lastOfScheduler()
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
		cause.Message, cause.Advice, cause.LateAdvice = s.gatesText()
		return []finding{{cause: cause}}
	}
	text = stripNoise(text)
	if text == "" || strings.HasPrefix(text, bindingVolumes) {
		if found, explained := s.failedClaims(); len(found) > 0 || explained {
			return found
		}
	}
	if text == "" {
		return s.unknownScheduler(scheduled, cause)
	}
	if s.describeMissingClaim(text, &cause) {
		return []finding{{cause: cause}}
	}
	if claim, ok := s.claimProblem(text, &cause); ok {
		return claim
	}
	s.describeUnschedulable(text, &cause)
	if added := s.describeScaling(&cause); added {
		cause.startsUntil(s.pod.CreationTimestamp.Add(joinsWithin), s.Now)
	} else {
		s.blockedByRollout(text, &cause)
	}
	return []finding{{cause: cause}}
}

// missingClaims match what the scheduler writes about a claim that a controller must create for the
// pod. They contain the reason of that controller's Event if it cannot.
var missingClaims = []struct {
	text   *pattern
	reason string
}{
	{compile(`waiting for ephemeral volume controller`), "FailedBinding"},
	{compile(`ResourceClaim not created yet|waiting for dynamic resource controller`), "FailedResourceClaimCreation"},
}

// claimRules match the Events about a claim that a controller cannot create for a pod.
var claimRules = []rule{
	{name: "ephemeral-claim-exists", problem: lasting,
		text:    compile(`^ephemeral volume (\S+): PVC \S+/(\S+) was not created for pod`),
		message: `its ephemeral volume "${1}" needs the name of claim "${2}", which exists already`,
		advice:  "rename the volume, or delete that claim"},
	{name: "resource-claim-template-not-found", problem: lasting,
		text:    compile(`^PodResourceClaim (\S+): resource claim template ("[^"]+"): .* not found`),
		message: `ResourceClaimTemplate ${2} of its resource claim "${1}" does not exist`,
		advice:  "create it, or correct its name"},
}

// createdFor matches the error of the API server in such an Event.
var createdFor = compile(`create (?:PVC|ResourceClaim) (\S+): `)

// describeMissingClaim explains a pod that waits for a claim by the Event of the controller that
// cannot create it. It reports whether there is one.
func (s *podView) describeMissingClaim(text string, cause *Cause) bool {
	for _, missing := range missingClaims {
		e := latest(s.events, missing.reason)
		if e == nil || !missing.text.MatchString(text) {
			continue
		}
		note := stripNoise(e.Note)
		if at := createdFor.FindStringSubmatchIndex(note); at != nil {
			of := *cause
			*cause = rejection(of.Object, "claim "+quote(note[at[2]:at[3]])+" of the pod cannot be created", note[at[1]:])
			cause.Time, cause.Since = of.Time, of.Since
		} else {
			r, ok := match(claimRules, note)
			if !ok {
				r = explanation{message: usefulEnd(note), advice: s.eventsAdvice(), transient: true}
			}
			cause.Message, cause.Advice, cause.LateAdvice, cause.Transient = "the pod cannot be scheduled: "+r.message, r.advice, r.late, r.transient
		}
		*cause = cause.withEvent(e)
		return true
	}
	return false
}

// QueueLabel is the label with the queue of a workload that Kueue admits:
// https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/
const QueueLabel = "kueue.x-k8s.io/queue-name"

// QueueText names the queue of an object that Kueue admits, or returns "".
func QueueText(labels map[string]string) string {
	if queue := line(labels[QueueLabel], maxName); queue != "" {
		return "it waits in queue " + quote(queue) + " of Kueue"
	}
	return ""
}

// gatesText names the scheduling gates of the pod.
func (s *podView) gatesText() (message, advice, late string) {
	var names []string
	for _, gate := range s.pod.Spec.SchedulingGates {
		names = append(names, quote(line(gate.Name, maxName)))
	}
	message = "the pod's schedulingGates prevent its scheduling"
	if len(names) > 0 {
		message += ": " + line(strings.Join(names, ", "), maxQuoted)
	}
	if queue := QueueText(s.pod.Labels); queue != "" {
		message += "; " + queue
	}
	return message, "wait until the component that set each gate removes it", "find out why the component that set each gate does not remove it"
}

// ofKarpenter is the beginning of the note of a FailedScheduling Event of Karpenter.
const ofKarpenter = "Failed to schedule pod, "

// lastOfScheduler returns the last FailedScheduling Event of the scheduler, or else any.
func (s *podView) lastOfScheduler() *Event {
	for i, e := range slices.Backward(s.events) {
		if e.Reason == "FailedScheduling" && !strings.HasPrefix(e.Note, ofKarpenter) {
			return &s.events[i]
		}
	}
	return latest(s.events, "FailedScheduling", "PodUnschedulable", "TaskRejected") // the others are of YuniKorn
}

// joinsWithin is how long a new node takes at most: --max-node-provision-time of the cluster autoscaler, and
// Karpenter's limit for a NodeClaim to register.
const joinsWithin = 15 * time.Minute

// karpenterDetails matches what a note of Karpenter repeats for each NodePool.
var karpenterDetails = compile(`, [^ ,;]+=[^;]*, resources=\{[^}]*\}|, daemonset overhead=\{[^}]*\}| and requirements [^;]*`)

// karpenterAdvice are the obstacles that only Karpenter names. One of them can hold for some NodePools only.
var karpenterAdvice = []rule{
	{name: "karpenter-requirements-incompatible", problem: lasting,
		text:   compile(`incompatible requirements|does not have known values`),
		advice: "check nodeSelector and affinity, which can exclude all NodePools"},
	{name: "karpenter-topology-unsatisfiable", problem: lasting,
		text:   compile(`unsatisfiable topology constraint`),
		advice: "relax topologySpreadConstraints or podAntiAffinity"},
	{name: "karpenter-cpu-unit", problem: lasting,
		text:   compile(`m vs M typo`),
		advice: "correct the unit of the CPU request: m is a thousandth, and M a million"},
}

// onFargate matches what the scheduler of AWS Fargate writes about a pod that it does not run.
var onFargate = compile(`not supported on Fargate|Fargate is not supported in`)

// neverOnFargate reports whether Fargate can never run the pod. It can once its claims are bound.
func neverOnFargate(text string) bool {
	return onFargate.MatchString(text) && !strings.Contains(text, "not bound")
}

// scalingLimit matches why an autoscaler may not add a node.
var scalingLimit = compile(`max node group size reached|max cluster [\w, ]+ limit reached|exceed limits for nodepool|limits have been exhausted for nodepool`)

// limitAdvice returns the end of the advice if a limit of the autoscaler is reached.
func limitAdvice(text string) string {
	if scalingLimit.MatchString(text) {
		return "; or ask the cluster's administrator to raise this limit"
	}
	return ""
}

// describeScaling adds what an autoscaler of nodes says about the pod. It reports whether one adds a node.
func (s *podView) describeScaling(cause *Cause) (added bool) {
	for _, e := range slices.Backward(s.events) {
		switch e.Reason {
		case "TriggeredScaleUp", "Nominated":
			cause.Transient = true
			cause.Message += "; the cluster adds a node for it"
			cause.Advice, cause.LateAdvice = "wait until the node is ready; if the problem persists, "+administrator, administrator
			return true
		case "NotTriggerScaleUp":
			if _, why, _ := strings.Cut(e.Note, ": "); why != "" {
				cause.Message += "; the cluster autoscaler adds no node: " + excerpt(sortObstacles(why))
			}
			cause.addAdvice(limitAdvice(e.Note))
			return false
		case "FailedScaleUp":
			why, _, _ := strings.Cut(e.Note, ". Pod is at risk")
			cause.Transient = true
			cause.Message += "; the cluster autoscaler cannot add a node: " + excerpt(lowerFirst(why))
			const more = "ask the cluster's administrator for other nodes or a larger quota"
			cause.LateAdvice = cmp.Or(cause.LateAdvice, cause.Advice) + "; " + more
			cause.Advice += "; wait for capacity, or " + more
			return false
		case "FailedScheduling":
			if why, ok := strings.CutPrefix(e.Note, ofKarpenter); ok {
				cause.Message += "; Karpenter adds no node: " + excerpt(karpenterDetails.ReplaceAllString(why, ""))
				for _, r := range obstaclesIn(why, karpenterAdvice) {
					cause.addAdvice("; " + r.advice)
				}
				cause.addAdvice(limitAdvice(why))
				return false
			}
		}
	}
	return false
}

// unknownScheduler returns a finding if a scheduler other than the default one must place the
// pod and has not considered it yet.
func (s *podView) unknownScheduler(scheduled *corev1.PodCondition, cause Cause) []finding {
	name := s.pod.Spec.SchedulerName
	if scheduled != nil || name == "" || name == corev1.DefaultSchedulerName {
		return nil
	}
	cause.Message = fmt.Sprintf("scheduler %q has not considered the pod", line(name, maxName))
	cause.Advice = "correct schedulerName; if it is correct, ask the cluster's administrator whether that scheduler runs"
	return []finding{{cause: cause}}
}

// onlyNode returns the node for which a DaemonSet creates the pod, or "". See
// kubernetes/pkg/controller/daemon/util/daemonset_util.go.
func onlyNode(p *corev1.Pod) string {
	if a := p.Spec.Affinity; a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) == 0 || len(terms[0].MatchFields) != 1 || terms[0].MatchFields[0].Key != metav1.ObjectNameField || len(terms[0].MatchFields[0].Values) != 1 {
		return ""
	}
	return line(terms[0].MatchFields[0].Values[0], maxName)
}

// notThisNode matches the obstacle of the nodes for which the pod is not.
var notThisNode = compile(`(?:, )?\d+ node\(s\) (?:didn't satisfy plugin\(s\) \[NodeAffinity\]|didn't match Pod's node affinity/selector)`)

// unschedulableText returns the beginning of the message, and the obstacles. For the pod of a DaemonSet,
// it leaves out the other nodes, unless they are the only obstacle.
func unschedulableText(p *corev1.Pod, nodes string) (message, obstacles string) {
	if node := onlyNode(p); node != "" {
		return "node " + quote(node) + " cannot take the pod", cmp.Or(strings.TrimPrefix(notThisNode.ReplaceAllString(nodes, ""), ", "), nodes)
	}
	return "no node can take the pod", nodes
}

// requiredText says which labels the pod requires of a node, if that is an obstacle.
func requiredText(p *corev1.Pod, obstacles string) string {
	required := requiredLabels(p)
	if required == "" || !notThisNode.MatchString(obstacles) || onlyNode(p) != "" {
		return ""
	}
	return " (it requires " + required + ")"
}

// requiredLabels describes the labels of the nodes on which a pod can run, by its nodeSelector and nodeAffinity.
func requiredLabels(p *corev1.Pod) string {
	var all []string
	for key, value := range p.Spec.NodeSelector {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		var terms []string
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			var parts []string
			for _, e := range t.MatchExpressions {
				parts = append(parts, strings.TrimSuffix(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ", ")), " "))
			}
			terms = append(terms, strings.Join(parts, " and "))
		}
		all = append(all, strings.Join(terms, " or "))
	}
	return line(strings.Join(all, " and "), maxQuoted)
}

// notYet matches the texts of schedulers about a pod that waits for something else than a node. Those of
// YuniKorn begin with the task.
var notYet = compile(`^(?:waiting for|Task) `)

// describeUnschedulable sets the message and the advice from the scheduler's text.
func (s *podView) describeUnschedulable(text string, cause *Cause) {
	nodes := deallocationNote.ReplaceAllString(preemptionSuffix.ReplaceAllString(nodesPrefix.ReplaceAllString(text, ""), ""), "")
	nodes = strings.TrimRight(nodes, ". ")
	if nodesPrefix.MatchString(text) {
		nodes = sortObstacles(nodes)
	}
	cause.Message, nodes = unschedulableText(s.pod, nodes)
	if why, ok := strings.CutPrefix(text, bindingVolumes); ok {
		cause.Message = "the volumes of the pod are not bound: " + excerpt(strings.Replace(why, "context deadline exceeded", "timed out", 1))
		cause.Advice = "check the Events of its claims (kubectl describe pvc -n " + s.pod.Namespace + ")"
		return
	}
	if strings.Contains(text, "not eligible due to a terminating pod on the nominated node") {
		cause.Message = "the pod waits until the pods that it replaces on its nominated node have ended"
		cause.Advice, cause.LateAdvice = "wait; if one of them does not end, check its finalizers and its node", "check the finalizers of these pods, and their node"
		return
	}
	if notYet.MatchString(nodes) {
		cause.Message = "the pod cannot be scheduled yet"
	}
	if strings.HasPrefix(text, "no nodes available") || nodes == "" && s.Nodes != nil && s.Nodes.Total == 0 {
		cause.Message, cause.Advice, cause.LateAdvice = "the cluster has no nodes", "wait until it has nodes, or "+administrator, administrator
		return
	}
	if nodes != "" {
		cause.Message += ": " + excerpt(nodes) + requiredText(s.pod, nodes)
	}
	note, exceeded := s.exceedsLargestNode(text)
	cause.Transient = len(exceeded) == 0 && !neverOnFargate(nodes)
	taints := s.untolerated(nodes)
	places := s.volumePlaces(nodes)
	advised := nameTaints(nodes, taints)
	if strings.Contains(places, noNodeThere) || strings.Contains(places, cordonedThere) {
		advised = volumeAffinity.ReplaceAllLiteralString(advised, "") // the place has its own advice
	}
	if strings.Contains(places, noNodeThere) {
		cause.Transient = false
	}
	notes := slices.DeleteFunc([]string{note, s.unmatchedClaims(nodes), taintNote(taints), s.cordoned(nodes, places), places}, func(n string) bool { return n == "" })
	if len(notes) > 0 {
		cause.Message += " (" + strings.Join(notes, "; ") + ")"
	}
	cause.Advice, cause.LateAdvice = schedulingAdviceFor(advised, strings.Join([]string{note, places}, "; "), exceeded)
	if s.Surging != "" && strings.Contains(words(nodes), "ReadWriteOncePod") {
		cause.Advice, cause.LateAdvice, cause.Transient = endOldPodsFirst, "", false
	}
}

// exceedsLargestNode compares the pod's requests with the largest node, for resources
// that the scheduler reports as insufficient. It returns which of them no node can satisfy.
func (s *podView) exceedsLargestNode(text string) (note string, exceeded []string) {
	if s.Nodes == nil {
		return "", nil
	}
	var notes []string
	for _, m := range insufficient.FindAllStringSubmatch(text, -1) {
		name := corev1.ResourceName(m[1])
		asked, largest := requested(&s.pod.Spec, name), s.Nodes.Largest[name]
		if largest.IsZero() || asked.Cmp(largest) > 0 {
			exceeded = append(exceeded, m[1])
		}
		switch {
		case largest.IsZero():
			notes = append(notes, "no node offers "+m[1])
		case asked.Cmp(largest) > 0:
			notes = append(notes, fmt.Sprintf("the largest node has %s %s; the pod requests %s",
				amount(largest, name), cmp.Or(units[name], string(name)), amount(asked, name)))
		}
	}
	return strings.Join(slices.Compact(notes), "; "), exceeded
}

// units are how messages name a resource after an amount, if not by its name.
var units = map[corev1.ResourceName]string{corev1.ResourceCPU: "CPU", corev1.ResourceMemory: "of memory"}

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

// requested returns the effective request of a pod, which is that of spec.resources if it is set.
// Otherwise, it is the sum of the containers that run together. An init container and the
// sidecars before it can request more.
func requested(spec *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	if spec.Resources != nil {
		if whole, ok := spec.Resources.Requests[name]; ok {
			whole = whole.DeepCopy()
			whole.Add(spec.Overhead[name])
			return whole
		}
	}
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
