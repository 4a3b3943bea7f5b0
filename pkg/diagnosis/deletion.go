package diagnosis

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stuckAfter is how long a deleted pod can still exist after its grace period. A kubelet
// removes it within seconds of the end of its containers. heldAfter is the same for a pod with
// finalizers, whose controllers usually remove them at once.
const (
	stuckAfter = time.Minute
	heldAfter  = 10 * time.Second
)

// AddStuck adds why deleted pods still exist, see [StuckPod]. Call it if new
// pods wait for their end. It uses the Events and NodeStates of w, and returns when to call it
// again; zero if none of the pods is deleted.
func (d *Diagnosis) AddStuck(pods []*corev1.Pod, w Workload, now time.Time) (again time.Duration) {
	for _, p := range pods {
		cause, left := StuckPod(p, w.Events, w.NodeStates, now)
		if again == 0 || left > 0 && left < again {
			again = left
		}
		switch {
		case cause == nil || d.contains(cause):
		case d.Cause == nil || d.Cause.Reason == ReasonProgressDeadlineExceeded:
			d.Cause = cause
		default:
			d.Others = append(d.Others, *cause)
		}
	}
	return again
}

// contains reports whether the diagnosis has a cause with the same meaning.
func (d *Diagnosis) contains(c *Cause) bool {
	same := func(other Cause) bool {
		return other.Reason == c.Reason && other.Object == c.Object || other.Identity() == c.Identity()
	}
	return d.Cause != nil && same(*d.Cause) || slices.ContainsFunc(d.Others, same)
}

// failedKillPod is the reason of the Event of a pod that the kubelet cannot end.
const failedKillPod = "FailedKillPod"

// killErrors matches the errors in the Event of a pod that the kubelet cannot end.
var killErrors = compile(`with \w+Error: "((?:[^"\\]|\\.)*)"`)

// killText returns why a node cannot end a pod.
func killText(e *Event) string {
	text := strings.TrimPrefix(e.Note, "error killing pod: ")
	if m := killErrors.FindStringSubmatch(text); m != nil {
		text = strings.ReplaceAll(m[1], `\"`, `"`)
	}
	return lowerFirst(matchOr(sandboxRules, stripNoise(text), "").message)
}

// lastEnd returns when the last container of the pod ended; zero if none did.
func lastEnd(p *corev1.Pod) (at time.Time) {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// undeletable describes a pod that is deleted while its node does not respond. It is not recreated
// under the same name before the node confirms its end.
func undeletable(node string) (message, advice string) {
	return "the pod cannot be deleted while node " + quote(line(node, maxName)) + " does not respond",
		"repair the node; if it is off for good, an administrator adds the taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or deletes the node"
}

// StuckPod returns why a deleted pod still exists a minute after its grace period, or ten seconds
// after it if the pod has finalizers. It returns nil if it does not. It also returns when to call
// it again; zero if the pod is not deleted. events, and nodes as of [NodeStates], can be nil.
func StuckPod(p *corev1.Pod, events []Event, nodes map[string]NodeState, now time.Time) (*Cause, time.Duration) {
	if p.DeletionTimestamp.IsZero() {
		return nil, 0
	}
	// It includes the grace period. The kubelet moves it back when the containers have ended.
	deleted := p.DeletionTimestamp.Time
	if ended := lastEnd(p); ended.After(deleted) {
		deleted = ended
	}
	patience := stuckAfter
	if len(p.Finalizers) > 0 {
		patience = heldAfter
	}
	if left := patience - now.Sub(deleted); left > 0 {
		return nil, left
	}
	node := quote(line(p.Spec.NodeName, maxName))
	cause := &Cause{
		Reason: ReasonTerminating, Object: Object{kindPod, p.Name}, Time: deleted, Since: deleted, Count: 1, Transient: true,
		Message: "the pod is still being deleted: node " + node + " has not confirmed that its containers ended and its volumes are unmounted",
		Advice:  administratorLater, LateAdvice: administrator,
	}
	kill := latest(newView(Workload{Events: events}).eventsFor(cause.Object, p.UID), failedKillPod)
	switch {
	case len(p.Finalizers) > 0:
		cause.Reason = ReasonFinalizersRemaining
		cause.Message = "the deletion of the pod waits until these finalizers are removed: " + line(strings.Join(slices.Sorted(slices.Values(p.Finalizers)), ", "), maxQuoted)
		cause.Advice, cause.LateAdvice = "check that the controller that removes them runs; remove them yourself only if it no longer exists", ""
	case nodes[p.Spec.NodeName].Lost:
		cause.Reason, cause.Node = ReasonNodeLost, p.Spec.NodeName
		cause.Message, cause.Advice = undeletable(p.Spec.NodeName)
		cause.LateAdvice = ""
	case kill != nil:
		cause.Message = "node " + node + " cannot end the pod: " + killText(kill)
	}
	cause.sanitize()
	cause.endWait(now)
	return cause, stuckAfter
}
