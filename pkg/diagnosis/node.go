package diagnosis

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// lost tells whether the pod is being deleted because its node does not answer: it
// stays until the node does.
func (s *podView) isLost() bool {
	return s.pod.DeletionTimestamp != nil && !isReady(s.pod) && (s.isUnreachable() || s.deletedByTaint())
}

// deletionByTaint is the reason that the taint manager gives for what it deletes.
const taintManagerReason = "DeletionByTaintManager"

// removedByTaint tells whether a taint of its node had the pod deleted, and the node
// has not told of an end of a container since: one that answers does, within the pod's
// grace period.
func (s *podView) deletedByTaint() bool {
	c := condition(s.pod, corev1.DisruptionTarget)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == taintManagerReason &&
		!slices.ContainsFunc(s.pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil })
}

// unreachable tells whether the pod is not ready though its containers were when
// its node last told of them.
func (s *podView) isUnreachable() bool {
	e := latest(s.events, "NodeNotReady")
	ready := condition(s.pod, corev1.PodReady)
	if e == nil || ready == nil || len(s.pod.Status.ContainerStatuses) == 0 {
		return false
	}
	past := !e.LastSeen.IsZero() && ready.LastTransitionTime.After(e.LastSeen.Add(maxEventDelay))
	return !past && !slices.ContainsFunc(s.pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

func (s *podView) nodeLostCause() Cause {
	return s.cause(ReasonNodeLost, explanation{
		message: "node " + quote(line(s.pod.Spec.NodeName, maxName)) + ", on which the pod is, does not answer",
		advice:  "wait until it is back or the pod is made anew on another; if it lasts, ask whoever runs the cluster",
		transient: true,
	}).withEvent(latest(s.events, "NodeNotReady"))
}

var rejectedRules = []rule{
	{regexp.MustCompile(`(?i)low on resource: ([\w-]+)`),
		"the node was short of ${1}, and ended the pod", "give it a request of ${1} that it gets by with, so that it is not the first to go", true},
	{regexp.MustCompile(`(?i)exceed.*ephemeral.*limit(?: of containers)? "?([0-9a-zA-Z.]+)`),
		"the pod wrote more to its node's disk than its limit of ${1}", "raise resources.limits.ephemeral-storage, or have it write to a volume", false},
	{regexp.MustCompile(`(?i)ephemeral local storage usage exceeds the total limit of containers (\S+?)\.?(?: |$)`),
		"the pod wrote more to its node's disk than its limit of ${1}", "raise resources.limits.ephemeral-storage, or have it write to a volume", false},
	{regexp.MustCompile(`(?i)Usage of EmptyDir volume "([^"]*)" exceeds the limit "([^"]*)"`),
		`the pod filled its volume "${1}" beyond the limit of ${2}`, "raise the volume's sizeLimit, or have it write less", false},
	{regexp.MustCompile(`(?i)node had condition: \[?(\w+)`),
		"the node had the condition ${1}, and ended the pod", "wait until it is made anew on another node", true},
	{regexp.MustCompile(`(?i)preempted`), "the pod had to make room for one of a higher priority", "wait for room, or ask for a higher priority", true},
	{regexp.MustCompile(`(?i)active on the node longer than the specified deadline`),
		"the pod ran longer than its activeDeadlineSeconds", "raise them, or have it do less", false},
}

// rejected is a pod that its node ended, or did not take.
func (s *podView) rejectedCause() Cause {
	reason := ReasonEvicted
	if s.pod.Status.Reason == "DeadlineExceeded" {
		reason = ReasonError
	}
	last := latest(s.events, "Evicted", "Preempting", s.pod.Status.Reason)
	r := matchOr(rejectedRules, stripNoise(s.pod.Status.Message), "")
	switch {
	case r.message == "":
		r.message, r.transient = "the node ended the pod: "+line(s.pod.Status.Reason, maxReason), true
	case r.advice == "":
		r.message, r.transient = "the node did not take the pod: "+r.message, true
	}
	return s.cause(reason, r).withEvent(last)
}
