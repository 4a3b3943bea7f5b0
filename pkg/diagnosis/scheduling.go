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

// obstacle maps a reason of the scheduler, or a note about one, to advice.
type obstacle struct {
	text   *regexp.Regexp
	advice string
}

// excluding are the obstacles that exclude every node, so that those of some nodes do not matter.
var excluding = []obstacle{
	{regexp.MustCompile(noNodeThere), "ask the cluster's administrator for a node there, or restore the data to another volume"},
	{regexp.MustCompile(cordonedThere), "wait until the node is uncordoned, or ask the cluster's administrator"},
	{absent, "correct the name of the resource, or ask the cluster's administrator for nodes that offer it"},
	{tooLarge, "request less ${1}, or ask the cluster's administrator for larger nodes"},
}

// schedulingAdvice are the obstacles of some nodes.
var schedulingAdvice = []obstacle{
	{regexp.MustCompile(`Insufficient ([\w./-]*\w)`), "request less ${1} in resources, or wait until more is available"},
	{leavingNode, "the cluster removes these nodes; wait until others can take the pod"},
	{nodeProblem, "wait until the nodes are ready and not under pressure, or ask the cluster's administrator to repair them"},
	{regexp.MustCompile(`untolerated taint\(s\)`), "if nodes are not ready or under pressure, wait; if a taint reserves them, ask the cluster's administrator whether the pod may run there"},
	{regexp.MustCompile(`untolerated taint \{|taints? that the pod didn't tolerate`), "add tolerations for the nodes' taints, or let the pod run on other nodes"},
	{regexp.MustCompile(`cannot allocate all claims`), "check the device classes and selectors of its ResourceClaims, or wait until a device is free"},
	{regexp.MustCompile(`device class (\S+) does not exist`), `use another DeviceClass than "${1}" in the ResourceClaim`},
	{regexp.MustCompile(`resourceclaim "([^"]+)" is being deleted`), `wait until ResourceClaim "${1}" is deleted, and create it again`},
	{regexp.MustCompile(`resourceclaim\S* "([^"]+)" not found`), `create ResourceClaim "${1}", or correct its name`},
	{regexp.MustCompile(`waiting for (?:dynamic resource|ephemeral volume) controller|ResourceClaim not created yet`), administratorLater},
	{regexp.MustCompile(`resourceclaim|resource claim`), "check the pod's ResourceClaims, or ask the cluster's administrator"},
	{regexp.MustCompile(`didn't find available persistent volumes`), "use a storage class that provisions volumes, or ask the cluster's administrator for a matching PersistentVolume"},
	{regexp.MustCompile(`enough free storage`), "request less storage, or wait until a node has more"},
	{regexp.MustCompile(`requested node name`), "correct nodeName"},
	{regexp.MustCompile(`non-existent pv`), "use another claim, or ask the cluster's administrator to restore the missing PersistentVolume"},
	{regexp.MustCompile(`node affinity/selector|didn't match node selector`), "correct nodeSelector and affinity, or ask the cluster's administrator for the labels of the nodes"},
	{regexp.MustCompile(`existing pods anti-affinity`), "the podAntiAffinity of running pods excludes it; wait until they end, or change their labels or its own"},
	{regexp.MustCompile(`anti-affinity`), "run fewer replicas, or relax its podAntiAffinity"},
	{regexp.MustCompile(`pod affinity`), "start the pods that its podAffinity requires, or relax it"},
	{regexp.MustCompile(`topology spread constraints \(missing required label\)`), "use a topologyKey in topologySpreadConstraints that the nodes have as a label"},
	{regexp.MustCompile(`topology spread`), "wait for free capacity in the other topology domains, or relax topologySpreadConstraints"},
	{regexp.MustCompile(`free ports`), "use another hostPort, or none"},
	{regexp.MustCompile(`Too many pods`), "wait until other pods end"},
	{regexp.MustCompile(`were unschedulable|had unknown conditions`), "wait until nodes are schedulable again"},
	{volumeAffinity, "no suitable node can use its volume; change the pod's placement, or use another volume"},
	{regexp.MustCompile(`volume count`), "wait until a node can attach another volume"},
	{regexp.MustCompile(`CSI driver is not installed on the node`), "wait until the storage driver runs on the nodes; if the problem persists, ask the cluster's administrator"},
	{regexp.MustCompile(`minCount pods from a gang`), "wait until the other pods of its PodGroup exist; the group's minCount must not exceed their number"},
	{regexp.MustCompile(`pod group "([^"]+)" to appear`), `create PodGroup "${1}", or correct its name`},
	{regexp.MustCompile(`required features`), "select nodes with a newer kubelet, or remove what needs newer features"},
	{regexp.MustCompile(`timed out trying to allocate devices`), "wait for the next attempt; if the problem persists, simplify the pod's ResourceClaims"},
	{regexp.MustCompile(`tasks in gang unschedulable`), "find out why the other pods of its group are not scheduled; it is tried again with them"},
	{regexp.MustCompile(`waiting for the preemption`), "wait until the pods that it replaces have ended"},
	{regexp.MustCompile(`device binding (?:timeout|failed)`), "wait for the next attempt; if the problem persists, ask the cluster's administrator to check the driver of its ResourceClaims"},
	{regexp.MustCompile(`rejected due to timeout after waiting \S+ at plugin (?:GangScheduling|Coscheduling)`), "find out why the other pods of its group are not scheduled; it is tried again with them"},
	{regexp.MustCompile(`had no available disk`), "another pod on these nodes uses the same disk; wait until it ends, or use another volume"},
	{regexp.MustCompile(`ReadWriteOncePod`), "another pod uses its claim; stop that pod, or use another claim"},
}

var (
	nodesPrefix      = regexp.MustCompile(`^\d+/\d+ nodes are available: ?`)
	preemptionSuffix = regexp.MustCompile(`\.? ?(?:(?:no new claims to deallocate|still not schedulable), )?preemption: .*$`)
	deallocationNote = regexp.MustCompile(`\.? ?no new claims to deallocate,?`)
	insufficient     = regexp.MustCompile(`Insufficient ([\w./-]*\w)`)
	// absent matches what exceedsLargestNode writes of a resource that no node offers.
	absent = regexp.MustCompile(`\bno node offers ([\w./-]*\w)`)
	// tooLarge matches what exceedsLargestNode writes of a request that no node can satisfy.
	tooLarge = regexp.MustCompile(`the largest node has \S+ (?:of )?([\w./-]*\w); the pod requests [\w.]+`)
	// nodeProblem matches taints that Kubernetes sets on nodes with a problem, and others that
	// agents remove when they run. A toleration would be wrong.
	nodeProblem = regexp.MustCompile(`untolerated taint \{(?:node\.(?:cloudprovider\.)?kubernetes\.io/|(?:startup|ignore)-taint\.cluster-autoscaler\.kubernetes\.io/|` +
		`karpenter\.sh/unregistered|[^}:]*/agent-not-ready)[^}]*\}`)
	// leavingNode matches taints of autoscalers on nodes that they remove.
	leavingNode = regexp.MustCompile(`untolerated taint \{(?:ToBeDeletedByClusterAutoscaler|DeletionCandidateOfClusterAutoscaler|karpenter\.sh/disrupt)[^}]*\}`)
	// controlPlane matches the nodes of the control plane, which take no pods of users.
	controlPlane = regexp.MustCompile(`(?:^|, )\d+ node\(s\) had untolerated taint \{node-role\.kubernetes\.io/(?:control-plane|master)[^}]*\}`)
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
		cause.Message, cause.Advice = s.gatesText()
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
	s.describeScaling(&cause)
	return []finding{{cause: cause}}
}

// missingClaims match what the scheduler writes about a claim that a controller must create for the
// pod. They contain the reason of that controller's Event if it cannot.
var missingClaims = []struct {
	text   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`waiting for ephemeral volume controller`), "FailedBinding"},
	{regexp.MustCompile(`ResourceClaim not created yet|waiting for dynamic resource controller`), "FailedResourceClaimCreation"},
}

// claimRules match the Events about a claim that a controller cannot create for a pod.
var claimRules = []rule{
	{regexp.MustCompile(`^ephemeral volume (\S+): PVC \S+/(\S+) was not created for pod`),
		`its ephemeral volume "${1}" needs the name of claim "${2}", which exists already`, "rename the volume, or delete that claim", false},
	{regexp.MustCompile(`^PodResourceClaim (\S+): resource claim template ("[^"]+"): .* not found`),
		`ResourceClaimTemplate ${2} of its resource claim "${1}" does not exist`, "create it, or correct its name", false},
}

// createdFor matches the error of the API server in such an Event.
var createdFor = regexp.MustCompile(`create (?:PVC|ResourceClaim) (\S+): `)

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
			object, since := cause.Object, cause.Time
			*cause = rejection(object, "claim "+quote(note[at[2]:at[3]])+" of the pod cannot be created", note[at[1]:])
			cause.Time = since
		} else {
			r, ok := match(claimRules, note)
			if !ok {
				r = explanation{message: usefulEnd(note), advice: s.eventsAdvice(), transient: true}
			}
			cause.Message, cause.Advice, cause.Transient = "the pod cannot be scheduled: "+r.message, r.advice, r.transient
		}
		*cause = cause.withEvent(e)
		return true
	}
	return false
}

// queueLabel is the label with the queue of a workload that Kueue admits:
// https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/
const queueLabel = "kueue.x-k8s.io/queue-name"

// QueueText names the queue of an object that Kueue admits, or returns "".
func QueueText(labels map[string]string) string {
	if queue := line(labels[queueLabel], maxName); queue != "" {
		return "it waits in queue " + quote(queue) + " of Kueue"
	}
	return ""
}

// gatesText names the scheduling gates of the pod.
func (s *podView) gatesText() (message, advice string) {
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
	return message, "wait until the component that set each gate removes it"
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
	return latest(s.events, "FailedScheduling")
}

// karpenterDetails matches what a note of Karpenter repeats for each NodePool.
var karpenterDetails = regexp.MustCompile(`, daemonset overhead=\{[^}]*\}| and requirements [^;]*`)

// describeScaling adds what an autoscaler of nodes says about the pod.
func (s *podView) describeScaling(cause *Cause) {
	for _, e := range slices.Backward(s.events) {
		switch e.Reason {
		case "TriggeredScaleUp", "Nominated":
			cause.Transient = true
			cause.Message += "; the cluster adds a node for it"
			cause.Advice = "wait until the node is ready; if the problem persists, ask the cluster's administrator"
			return
		case "NotTriggerScaleUp":
			if _, why, _ := strings.Cut(e.Note, ": "); why != "" {
				cause.Message += "; the cluster autoscaler adds no node: " + excerpt(sortObstacles(why))
			}
			if strings.Contains(e.Note, "max node group size reached") {
				cause.Advice += "; or ask the cluster's administrator for larger node groups"
			}
			return
		case "FailedScheduling":
			if why, ok := strings.CutPrefix(e.Note, ofKarpenter); ok {
				cause.Message += "; Karpenter adds no node: " + excerpt(karpenterDetails.ReplaceAllString(why, ""))
				return
			}
		}
	}
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

// describeUnschedulable sets the message and the advice from the scheduler's text.
func (s *podView) describeUnschedulable(text string, cause *Cause) {
	nodes := deallocationNote.ReplaceAllString(preemptionSuffix.ReplaceAllString(nodesPrefix.ReplaceAllString(text, ""), ""), "")
	nodes = strings.TrimRight(nodes, ". ")
	if nodesPrefix.MatchString(text) {
		nodes = sortObstacles(nodes)
	}
	cause.Message = "no node can take the pod"
	if why, ok := strings.CutPrefix(text, bindingVolumes); ok {
		cause.Message = "the volumes of the pod are not bound: " + excerpt(strings.Replace(why, "context deadline exceeded", "timed out", 1))
		cause.Advice = "check the Events of its claims (kubectl describe pvc -n " + s.pod.Namespace + ")"
		return
	}
	if strings.Contains(text, "not eligible due to a terminating pod on the nominated node") {
		cause.Message = "the pod waits until the pods that it replaces on its nominated node have ended"
		cause.Advice = "wait; if one of them does not end, check its finalizers and its node"
		return
	}
	if strings.HasPrefix(nodes, "waiting for ") {
		cause.Message = "the pod cannot be scheduled yet"
	}
	if strings.HasPrefix(text, "no nodes available") || s.Nodes != nil && s.Nodes.Total == 0 {
		cause.Message, cause.Advice = "the cluster has no nodes", "wait until it has nodes, or ask the cluster's administrator"
		return
	}
	if nodes != "" {
		cause.Message += ": " + excerpt(nodes)
	}
	note, exceeded := s.exceedsLargestNode(text)
	cause.Transient = len(exceeded) == 0
	taints := s.untolerated(nodes)
	places := s.volumePlaces(nodes)
	advised := nameTaints(nodes, taints)
	if strings.Contains(places, noNodeThere) || strings.Contains(places, cordonedThere) {
		advised = volumeAffinity.ReplaceAllLiteralString(advised, "") // the place has its own advice
	}
	if strings.Contains(places, noNodeThere) {
		cause.Transient = false
	}
	notes := slices.DeleteFunc([]string{note, s.unmatchedClaims(nodes), taintNote(taints), places}, func(n string) bool { return n == "" })
	if len(notes) > 0 {
		cause.Message += " (" + strings.Join(notes, "; ") + ")"
	}
	cause.Advice = cmp.Or(schedulingAdviceFor(advised, strings.Join([]string{note, places}, "; "), exceeded), "if the pod's spec is correct, ask the cluster's administrator")
	if s.Surging != "" && strings.Contains(words(nodes), "ReadWriteOncePod") {
		cause.Advice, cause.Transient = endOldPodsFirst, false
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

// schedulingAdviceFor joins the advice for the first three obstacles. Nodes of the control plane are an
// obstacle only if there are no other nodes. The note explains the exceeded resources and where volumes
// are.
func schedulingAdviceFor(nodes, note string, exceeded []string) string {
	if others := strings.TrimLeft(controlPlane.ReplaceAllString(nodes, ""), ", "); others != "" {
		nodes = others
	} else if nodes != "" {
		return "the cluster has only nodes of the control plane; ask the cluster's administrator for others"
	}
	for _, name := range exceeded {
		nodes = strings.ReplaceAll(nodes, "Insufficient "+name, "")
	}
	text := note + ", " + nodes
	advice := adviceIn(text, excluding)
	if len(advice) == 0 {
		advice = adviceIn(text, schedulingAdvice)
	}
	return strings.Join(advice, "; ")
}

// adviceIn returns the advice for those of the obstacles that a text contains.
func adviceIn(text string, obstacles []obstacle) []string {
	const most = 3
	hidden := words(text)
	var advice []string
	for _, a := range obstacles {
		in := hidden
		if a.text == leavingNode || a.text == nodeProblem { // they match taints that only Kubernetes and autoscalers set
			in = text
		}
		all := a.text.FindAllStringSubmatchIndex(in, -1)
		if all == nil {
			continue
		}
		if advice = append(advice, string(a.text.ExpandString(nil, a.advice, text, all[0]))); len(advice) == most {
			break
		}
		for _, at := range slices.Backward(all) { // so that no later, more general rule matches it
			text, hidden = text[:at[0]]+text[at[1]:], hidden[:at[0]]+hidden[at[1]:]
		}
	}
	return advice
}

// passing matches obstacles that come and go with the state of nodes and of other pods.
var passing = regexp.MustCompile(`^(?:Insufficient |untolerated taint|taints? that the pod didn't|Too many pods|` +
	`were unschedulable|had unknown conditions|volume count|CSI driver is not installed)`)

// lastingObstacles returns the obstacles in the sentence of a cause that are not passing. It returns
// the sentence if it contains no known obstacle.
func lastingObstacles(sentence string) string {
	known := false
	var lasting []string
	for _, a := range slices.Concat(excluding, schedulingAdvice) {
		text := a.text.FindString(sentence)
		known = known || text != ""
		if text != "" && !passing.MatchString(text) {
			lasting = append(lasting, text)
		}
	}
	if !known {
		return sentence
	}
	return strings.Join(lasting, ", ")
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
