package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podView is a pod with the Events that regard it.
type podView struct {
	*view
	pod    *corev1.Pod
	events []Event
}

// maxFindings limits the findings of a pod, which may have thousands of containers.
const maxFindings = 64

func (v *view) podView(p *corev1.Pod) *podView {
	return &podView{view: v, pod: p, events: v.eventsFor(Object{kindPod, p.Name}, p.UID)}
}

func (v *view) podCauses(p *corev1.Pod) []finding {
	s := v.podView(p)
	switch {
	case s.isLost(), s.isUnreachable():
		return []finding{{cause: s.nodeLostCause()}}
	case p.Status.Phase == corev1.PodFailed && p.Status.Reason != "":
		return []finding{{cause: s.rejectedCause()}}
	case p.Spec.NodeName == "":
		return s.schedulingFindings()
	}
	var found, unseen []finding
	if !s.hasStarted() {
		found = append(found, s.mountFindings()...)
	}
	for _, c := range s.containers() {
		for _, cause := range c.causes() {
			f := finding{cause: cause, position: c.position}
			if cause.Means == MeansUnseenEnd {
				unseen = append(unseen, f)
			} else {
				found = append(found, f)
			}
		}
		if len(found)+len(unseen) >= maxFindings {
			break
		}
	}
	if len(found) == 0 {
		found = unseen // an end that no one saw explains less than anything else
	}
	if len(found) == 0 {
		return s.otherFindings()
	}
	return found
}

// otherFindings returns why a pod does not run although its containers do.
func (s *podView) otherFindings() []finding {
	if ready := condition(s.pod, corev1.ContainersReady); ready != nil && ready.Status == corev1.ConditionTrue {
		return s.gateFindings()
	}
	return s.stillRunning()
}

// gateFindings returns which readiness gates of the pod are not true.
func (s *podView) gateFindings() []finding {
	var found []finding
	for _, gate := range s.pod.Spec.ReadinessGates {
		what := "readiness gate " + quote(line(string(gate.ConditionType), maxName))
		r := explanation{advice: "check the controller that sets this condition of the pod, such as that of a load balancer", transient: true}
		cause := s.cause(ReasonReadinessGatesNotReady, r)
		switch c := condition(s.pod, gate.ConditionType); {
		case c == nil:
			cause.Message = "the containers are ready, but no controller has set the condition of " + what + " yet"
		case c.Status == corev1.ConditionTrue:
			continue
		default:
			cause.Message = "the containers are ready, but the condition of " + what + " is " + line(string(c.Status), maxReason)
			if text := excerpt(line(strings.Trim(c.Reason+": "+c.Message, ": "), maxRead)); text != "" {
				cause.Message += ": " + text
			}
			cause.Time = c.LastTransitionTime.Time
		}
		if found = append(found, finding{cause: cause}); len(found) >= maxFindings {
			break
		}
	}
	return found
}

// eventsAdvice returns where to look for more about an error that no rule knows.
func (s *podView) eventsAdvice() string {
	if s.pod.Namespace == "" { // only its Events are known
		return "if this text does not help, ask the cluster's administrator"
	}
	return fmt.Sprintf("see the Events of the pod (kubectl describe pod -n %s %s); if they do not help, ask the cluster's administrator", s.pod.Namespace, s.pod.Name)
}

// cause returns a Cause whose object is the pod.
func (s *podView) cause(reason string, r explanation) Cause {
	return Cause{
		Reason: reason, Object: Object{kindPod, s.pod.Name}, Count: 1,
		Message: r.message, Advice: r.advice, LateAdvice: r.late, Transient: r.transient, Means: r.means, Time: s.pod.CreationTimestamp.Time, Since: s.since(),
	}
}

// startSteps are the conditions that show how far the start of a pod has come.
var startSteps = []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized}

// since returns since when the pod is not ready, or since when its start has come as far as now.
func (s *podView) since() time.Time {
	since := s.pod.CreationTimestamp.Time
	for _, c := range s.pod.Status.Conditions {
		isStep := c.Status == corev1.ConditionTrue && slices.Contains(startSteps, c.Type)
		if (isStep || c.Type == corev1.PodReady) && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// withEvent adds the times and the count of an Event. It ignores a nil Event.
func (c Cause) withEvent(e *Event) Cause {
	if e == nil {
		return c
	}
	if c.Since.IsZero() {
		c.Since = e.FirstSeen
	}
	if e.LastSeen.After(c.Time) {
		c.Time = e.LastSeen
	}
	c.Count = max(c.Count, e.count())
	return c
}

// hasStarted reports whether the node has prepared the volumes and the sandbox of the pod. After a
// reboot it prepares them again, although the containers have already run.
func (s *podView) hasStarted() bool {
	if c := condition(s.pod, corev1.PodReadyToStartContainers); c != nil && c.Status == corev1.ConditionFalse && s.pod.Status.Phase != corev1.PodFailed {
		return false
	}
	return slices.ContainsFunc(s.containers(), func(c *container) bool { return !c.isNew() })
}

// isLost reports whether the pod is being deleted while its node does not respond. It
// stays until the node does.
func (s *podView) isLost() bool {
	return s.pod.DeletionTimestamp != nil && !isReady(s.pod) && (s.isUnreachable() || s.deletedByTaint())
}

// taintManagerReason is the reason of the DisruptionTarget condition that the taint
// manager sets.
const taintManagerReason = "DeletionByTaintManager"

// deletedByTaint reports whether a taint of its node deletes the pod, and no container
// has ended since. A node that responds ends them within the pod's grace period. It is a sign of a
// lost node only if the state of the node is unknown.
func (s *podView) deletedByTaint() bool {
	c := condition(s.pod, corev1.DisruptionTarget)
	_, known := s.NodeStates[s.pod.Spec.NodeName]
	return !known && c != nil && c.Status == corev1.ConditionTrue && c.Reason == taintManagerReason &&
		!slices.ContainsFunc(s.pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil })
}

// taintCause is the cause of a pod that was deleted because of a taint of its node.
func (s *podView) taintCause() Cause {
	return s.cause(ReasonTaintManagerEviction, explanation{
		message:   "the pod was deleted because its node has a taint that the pod does not tolerate",
		advice:    "wait until the pod is recreated on another node; a node that does not respond has such a taint too",
		late:      createdAgain,
		transient: true,
	})
}

// preemptedCause is the cause of a pod that the scheduler deleted.
func (s *podView) preemptedCause() Cause {
	return s.cause(ReasonPreempted, explanation{
		message: "the pod was removed to make room for a pod of a higher priority",
		advice:  "wait for free capacity, or use a higher priority", transient: true,
		late: "use a higher priority, or ask the cluster's administrator for more nodes",
	})
}

// disruptedCause is the cause of a pod that the scheduler or the taint manager deleted. It returns
// false for other pods, also for those that a drain evicts.
func (s *podView) disruptedCause() (cause Cause, ok bool) {
	c := condition(s.pod, corev1.DisruptionTarget)
	if s.pod.DeletionTimestamp == nil || c == nil || c.Status != corev1.ConditionTrue {
		return Cause{}, false
	}
	switch c.Reason {
	case corev1.PodReasonPreemptionByScheduler:
		cause = s.preemptedCause()
	case taintManagerReason:
		cause = s.taintCause()
	default:
		return Cause{}, false
	}
	cause.Time = c.LastTransitionTime.Time
	return cause, true
}

// isUnreachable reports whether the pod is not ready because its node does not respond or is not ready. If the
// nodes are unknown, the pod itself can show it: all its containers were ready when its node last reported
// them. See MarkPodsNotReady in kubernetes/pkg/controller/util/node/controller_utils.go.
func (s *podView) isUnreachable() bool {
	if s.pod.Status.Phase == corev1.PodSucceeded || s.pod.Status.Phase == corev1.PodFailed {
		return false // it has ended
	}
	if node, known := s.NodeStates[s.pod.Spec.NodeName]; known && !node.NotReady {
		return node.Lost && !isReady(s.pod)
	}
	ready, statuses := condition(s.pod, corev1.PodReady), s.pod.Status.ContainerStatuses
	if ready == nil || len(statuses) == 0 || slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool { return !c.Ready }) {
		return false
	}
	if ready.Status == corev1.ConditionFalse && ready.Reason == "" {
		return true // the kubelet always sets a reason
	}
	e := latest(s.events, "NodeNotReady")
	return e != nil && (e.LastSeen.IsZero() || !ready.LastTransitionTime.After(e.LastSeen.Add(maxEventDelay)))
}

func (s *podView) nodeLostCause() Cause {
	what := "is not ready or does not respond" // the pod alone does not show which
	switch node := s.NodeStates[s.pod.Spec.NodeName]; {
	case node.Lost:
		what = "does not respond"
	case node.NotReady:
		what = "is not ready"
	}
	r := explanation{
		message:   "node " + quote(line(s.pod.Spec.NodeName, maxName)) + " of the pod " + what,
		advice:    "wait until the node is back or the pod is recreated on another node; if the problem persists, ask the cluster's administrator",
		late:      "ask the cluster's administrator to repair or remove the node",
		transient: true,
	}
	if s.pod.DeletionTimestamp != nil && s.NodeStates[s.pod.Spec.NodeName].Lost {
		r.message, r.advice = undeletable(s.pod.Spec.NodeName)
		r.late = ""
	}
	cause := s.cause(ReasonNodeLost, r).withEvent(latest(s.events, "NodeNotReady"))
	cause.Node = s.pod.Spec.NodeName
	since := s.NodeStates[cause.Node].Since
	if ready := condition(s.pod, corev1.PodReady); since.IsZero() && ready != nil && ready.Status == corev1.ConditionFalse {
		since = ready.LastTransitionTime.Time
	}
	if since.After(cause.Time) {
		cause.Time = since
	}
	return cause
}

// createdAgain is what remains of the advice to wait until a pod is recreated.
const createdAgain = "find out why its controller creates no other pod; without a controller, create it again"

// rejectedRules match why a node evicted a pod, or did not admit it.
var rejectedRules = []rule{
	{name: "karpenter-evicted", problem: passing,
		text:    compile(`^Evicted pod: (.*)`),
		message: "Karpenter evicted the pod to remove its node: ${1}",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "node-volume-limit", problem: passing,
		text:    compile(`Node has reached its volume attachment limit`),
		message: "the node has as many volumes as it can have",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "cpus-not-multiple-of-cores", problem: lasting,
		text:    compile(`requested (\d+) cpus not multiple cpus per core = (\d+)`),
		message: "the node assigns whole cores of ${2} CPUs, and the pod requests ${1} CPUs",
		advice:  "request a multiple of ${2} CPUs, or select other nodes"},
	{name: "smt-alignment", problem: passing,
		text:    compile(`SMT Alignment Error`),
		message: "the node has too few free cores",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "pod-level-resources-not-supported", problem: lasting,
		text:    compile(`PodLevelResources feature gate is disabled|pod-level resources are not supported`),
		message: "the node does not support spec.resources of a pod",
		advice:  "set resources of the containers instead, or select other nodes"},
	{name: "supplemental-groups-policy-not-supported", problem: lasting,
		text:    compile(`SupplementalGroupsPolicy=(\w+) is not supported`),
		message: "the node does not support supplementalGroupsPolicy ${1}",
		advice:  "remove it from securityContext, or select other nodes"},
	{name: "evicted-pids", problem: passing,
		text:    compile(`(?i)low on resource: pids`),
		message: "the node ran out of process IDs and evicted the pod",
		advice:  "start fewer processes or threads in its containers; a pod cannot request process IDs"},
	{name: "evicted-inodes", problem: passing,
		text:    compile(`(?i)low on resource: inodes|low on resource: (?:nodefs|imagefs)InodesFree`),
		message: "the node ran out of inodes and evicted the pod",
		advice:  "create fewer files outside volumes; a pod cannot request inodes"},
	{name: "evicted-low-resource", problem: passing,
		text:    compile(`(?i)low on resource: ([\w-]+)`),
		message: "the node ran low on ${1} and evicted the pod",
		advice:  "request enough ${1}, so that the pod is not evicted first"},
	{name: "ephemeral-storage-container-limit", problem: lasting,
		text:    compile(`(?i)exceed.*ephemeral.*limit(?: of containers)? "?([0-9a-zA-Z.]+)`),
		message: "the pod used more local disk space than its limit of ${1}",
		advice:  "raise resources.limits.ephemeral-storage, or write to a volume"},
	{name: "ephemeral-storage-pod-limit", problem: lasting,
		text:    compile(`(?i)ephemeral local storage usage exceeds the total limit of containers (\S+?)\.?(?: |$)`),
		message: "the pod used more local disk space than its limit of ${1}",
		advice:  "raise resources.limits.ephemeral-storage, or write to a volume"},
	{name: "empty-dir-limit", problem: lasting,
		text:    compile(`(?i)Usage of EmptyDir volume "([^"]*)" exceeds the limit "([^"]*)"`),
		message: `volume "${1}" of the pod exceeded its size limit of ${2}`,
		advice:  "raise the volume's sizeLimit, or write less to the volume"},
	{name: "node-condition", problem: passing,
		text:    compile(`(?i)node had condition: \[?([\w ]+)`),
		message: "the node had the condition ${1} and did not admit the pod",
		advice:  "wait until it is recreated on another node", late: createdAgain},
	{name: "node-was-shut-down", problem: passing,
		text:    compile(`(?i)terminated in response to imminent node shutdown`),
		message: "its node was shut down",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "node-shuts-down", problem: passing,
		text:    compile(`(?i)node is shutting down`),
		message: "its node shuts down and takes no pods",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "shared-device-limit", problem: lasting,
		text:    compile(`maximum request size for shared resources is (\d+)`),
		message: "the node shares its devices, and a container can request ${1} at most",
		advice:  "request no more than ${1}"},
	{name: "device-allocation-fails", problem: passing,
		text:    compile(`(?i)Allocate failed due to (.*?),? which is unexpected`),
		message: "the node cannot allocate what the pod requests: ${1}",
		advice:  "wait until the pod is recreated; if the problem persists, ask the cluster's administrator", late: administrator},
	{name: "exclusive-resources-use-budget", problem: lasting,
		text:    compile(`pod rejected, sum of exclusive container (\w+) requests equals pod budget`),
		message: "containers with exclusive ${1} use all ${1} of the pod's spec.resources, and leave none for the others",
		advice:  "raise spec.resources.requests.${1} of the pod, or request less in these containers"},
	{name: "node-unresponsive", problem: passing,
		text:    compile(`which was running pod \S+ is unresponsive`),
		message: "its node does not respond",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "node-taint-not-tolerated", problem: passing,
		text:    compile(`Predicate TaintToleration failed`),
		message: "the node has a taint that the pod does not tolerate",
		advice:  "wait until the pod is recreated on another node; if it sets nodeName, remove nodeName",
		late:    "if the pod sets nodeName, remove nodeName; otherwise, find out why its controller creates no other pod"},
	{name: "node-ports-taken", problem: passing,
		text:    compile(`Predicate NodePorts failed`),
		message: "another pod on the node uses its hostPort",
		advice:  "use another hostPort, or none; without a change, it can run on another node"},
	{name: "critical-pod-no-room", problem: lasting,
		text:    compile(`no set of running pods found to reclaim resources: \[\(res: ([\w./-]+), q: \d+\)`),
		message: "the node has too little ${1} for this critical pod, even without its pods of lower priority",
		advice:  "request less ${1}, or ask the cluster's administrator for larger nodes"},
	{name: "node-out-of-pods", problem: passing,
		text:    compile(`(?i)Node didn't have enough resource: pods`),
		message: "the node runs as many pods as it can",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "node-out-of-resource", problem: passing,
		text:    compile(`(?i)Node didn't have enough resource: ([\w./-]+), requested: (\d+), used: (\d+), capacity: (\d+)`),
		message: "the node has too little ${1} left for the pod",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "topology-locality", problem: passing,
		text:    compile(`(?i)Resources cannot be allocated with Topology locality`),
		message: "the node cannot allocate CPUs, memory and devices that are close to each other",
		advice:  "request fewer CPUs or devices, or select other nodes"},
	{name: "node-affinity-at-admission", problem: passing,
		text:    compile(`(?i)Predicate NodeAffinity failed|node affinity/selector`),
		message: "the labels of the node do not match the pod's nodeSelector or affinity",
		advice:  "wait until the pod is recreated on another node", late: createdAgain},
	{name: "sysctl-forbidden", problem: lasting,
		text:    compile(`(?i)forbidden sysctl: ("[^"]*")`),
		message: "the node forbids the sysctl ${1}",
		advice:  "remove it from securityContext.sysctls, or ask the cluster's administrator to allow it"},
	{name: "admission-apparmor-not-enabled", problem: lasting,
		text:    compile(`Cannot enforce AppArmor: AppArmor is not enabled`),
		message: "the node does not support AppArmor",
		advice:  "remove securityContext.appArmorProfile, or select other nodes"},
	{name: "admission-apparmor-fails", problem: lasting,
		text:    compile(`(?i)Cannot enforce AppArmor: (.*)`),
		message: "the node cannot use the pod's AppArmor profile: ${1}",
		advice:  "correct securityContext.appArmorProfile, or use RuntimeDefault"},
	{name: "admission-node-features-missing", problem: passing,
		text:    compile(`(?i)Pod requires node features that are not available: (.*)`),
		message: "the node lacks features that the pod needs: ${1}",
		advice:  "select other nodes, or remove what needs these features"},
	{name: "node-operating-system-differs", problem: lasting,
		text:    compile(`(?i)Failed to admit pod as the (?:OS field|\S+ label) doesn't match node`),
		message: "the pod is for another operating system than the node",
		advice:  "correct spec.os and nodeSelector kubernetes.io/os"},
	{name: "preempted", problem: passing,
		text:    compile(`(?i)preempted`),
		message: "the pod was preempted by a pod of a higher priority",
		advice:  "wait for free capacity, or use a higher priority",
		late:    "use a higher priority, or ask the cluster's administrator for more nodes"},
	{name: "active-deadline-exceeded", problem: lasting,
		text:    compile(`(?i)active on the node longer than the specified deadline`),
		message: "the pod ran longer than its activeDeadlineSeconds",
		advice:  "raise activeDeadlineSeconds, or make the work shorter"},
}

// rejectedReasons maps the reasons of failed pods to ours. All others mean that the node did
// not admit the pod.
var rejectedReasons = map[string]string{
	"Evicted":                  ReasonEvicted,
	"DeadlineExceeded":         ReasonError,
	"Preempting":               ReasonPreempted, // by the kubelet, for a critical pod
	"Preempted":                ReasonPreempted,
	"Terminated":               ReasonNodeShutdown,
	"NodeShutdown":             ReasonNodeShutdown,
	"Shutdown":                 ReasonNodeShutdown, // before Kubernetes 1.22
	"UnexpectedAdmissionError": ReasonUnexpectedAdmissionError,
	"NodeLost":                 ReasonNodeLost,
}

// rejectedCause is the cause of a pod that its node evicted or did not admit.
func (s *podView) rejectedCause() Cause {
	reason, ok := rejectedReasons[s.pod.Status.Reason]
	if !ok {
		reason = ReasonPodRejected
	}
	last := latest(s.events, "Evicted", "Preempting", s.pod.Status.Reason)
	r := matchOr(rejectedRules, strings.TrimPrefix(stripNoise(s.pod.Status.Message), "Pod was rejected: "), "")
	ofNode := r.transient && (reason == ReasonEvicted || reason == ReasonNodeShutdown)
	switch {
	case r.message == "":
		r.message, r.transient = "the node stopped the pod: "+line(s.pod.Status.Reason, maxReason), true
	case r.advice == "":
		r.message, r.transient = "the node rejected the pod: "+r.message, true
		r.advice, r.late = "wait until the pod is recreated; if the problem persists, ask the cluster's administrator", administrator
	}
	cause := s.cause(reason, r)
	if at := lastEnd(s.pod); at.After(cause.Time) {
		cause.Time = at
	}
	cause = cause.withEvent(last)
	if ofNode {
		cause.Node = s.pod.Spec.NodeName
	}
	return cause
}

// deletedPodFindings returns why the last pod of the workload did not run, from the
// Events that remain of it. No Event contains an exit code or OOMKilled.
func (v *view) deletedPodFindings() []finding {
	last := v.lastPodEvent()
	if last == nil {
		return nil
	}
	events := v.eventsFor(last.Regarding, last.UID)
	s := &podView{view: v, events: events, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: last.Regarding.Name, UID: last.UID}}}
	for i := range slices.Backward(events) {
		if v.Recreated && !deletionReasons[events[i].Reason] {
			continue
		}
		if cause, ok := s.fromLastEvent(&events[i]); ok {
			return []finding{{cause: cause}}
		}
	}
	return nil
}

// deletionReasons are the reasons of Events about why a pod was deleted.
var deletionReasons = map[string]bool{"Evicted": true, "Preempting": true, "Preempted": true, "TaintManagerEviction": true}

// lastPodEvent returns the last Event that regards a pod, or nil.
func (v *view) lastPodEvent() *Event {
	for i := range slices.Backward(v.Events) {
		if v.Events[i].Regarding.Kind == kindPod {
			return &v.Events[i]
		}
	}
	return nil
}

var imageOf = compile(`image "([^"]+)"`)

// fromLastEvent returns the cause that an Event of a deleted pod shows.
func (s *podView) fromLastEvent(e *Event) (Cause, bool) {
	c := &container{podView: s, podDeleted: true, name: e.Container(), status: &corev1.ContainerStatus{}}
	if m := imageOf.FindStringSubmatch(e.Note); m != nil {
		c.spec.Image = m[1]
	}
	if cause, ok := c.causeFromEvent(e); ok {
		return cause, true
	}
	if isSandboxFailure(e) {
		return s.sandboxCause(e), true
	}
	switch e.Reason {
	case "Evicted", "Preempting":
		s.pod.Status = corev1.PodStatus{Reason: e.Reason, Message: e.Note}
		return s.rejectedCause(), true
	case "Preempted":
		return s.preemptedCause().withEvent(e), true
	case "TaintManagerEviction":
		return s.taintCause().withEvent(e), strings.HasPrefix(e.Note, "Marking for deletion")
	case "FailedScheduling":
		found := s.schedulingFindings()
		if len(found) == 0 {
			return Cause{}, false
		}
		return found[0].cause, true
	case "FailedAttachVolume":
		return s.volumeCause(ReasonFailedAttachVolume, e), true
	case "FailedMount", "FailedMapVolume":
		return s.volumeCause(ReasonFailedMount, e), true
	case "BackOff":
		return c.crashCause(ReasonCrashLoopBackOff, nil).withEvent(e), strings.HasPrefix(e.Note, "Back-off restarting failed container")
	case "Unhealthy":
		return c.probeCause()
	}
	return Cause{}, false
}
