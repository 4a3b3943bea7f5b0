package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// failed reports whether a container ended with an error.
func failed(t *corev1.ContainerStateTerminated) bool {
	return t != nil && (t.ExitCode != 0 || t.Reason == ReasonOOMKilled)
}

// startErrors are the reasons of a command that could not be run. Only their message
// comes from the runtime. The message of any other end can contain log lines and is never
// shown.
var startErrors = map[string]bool{"StartError": true, "ContainerCannotRun": true}

// unseenReasons are the reasons of ends that no one saw: of the kubelet, and of containerd after a
// restart of the node. The exit codes 137 and 255 are their own.
var unseenReasons = map[string]bool{"ContainerStatusUnknown": true, "Unknown": true}

// restartedByRule is the reason of an end that a rule of another container caused, with the action
// RestartAllContainers: kubernetes/pkg/kubelet/kubelet_pods.go.
const restartedByRule = "RestartingAllContainers"

// signalExitBase plus the number of a signal is the exit code of the process that it
// killed.
const signalExitBase = 128

// signalAdvice explains the signals that usually end containers.
var signalAdvice = map[int32]string{
	4:  "it ran an instruction that the CPU does not know; the program can be built for newer CPUs than the node's",
	6:  "the process aborted itself",
	7:  "it accessed memory that the node could not provide, for example because /dev/shm or a mapped file is too small",
	9:  "it did not stop within its grace period, or one of its processes exceeded the memory limit, or another process killed it",
	11: "it accessed invalid memory, which is a bug in the program or in a library",
	15: "it was asked to stop",
	31: "it made a system call that is not allowed, usually by its seccomp profile",
}

// crashCause is the cause of a container that ended. If t is nil, nothing is known about
// the end.
func (c *container) crashCause(reason string, t *corev1.ContainerStateTerminated) Cause {
	if t == nil {
		return c.withCrashCount(c.cause(reason, explanation{message: c.label() + " keeps ending", advice: c.logAdvice()}), nil)
	}
	if t.Reason == ReasonOOMKilled {
		return c.withCrashCount(c.cause(ReasonOOMKilled, c.outOfMemoryText()), t)
	}
	if startErrors[t.Reason] {
		return c.withCrashCount(c.createCause(ReasonRunContainerError, t.Message), t)
	}
	if unseenReasons[t.Reason] {
		cause := c.withCrashCount(c.cause(ReasonError, explanation{
			message:   "the node has no record of how " + c.label() + " ended",
			advice:    "the node or its kubelet was restarted, or the pod was evicted; wait until the container or pod is replaced",
			late:      "ask the cluster's administrator to check the node",
			transient: true,
			means:     MeansUnseenEnd,
		}), t)
		cause.ExitCode = nil
		return cause
	}
	if t.Reason == restartedByRule {
		return c.withCrashCount(c.cause(reason, explanation{
			message:   c.label() + " was stopped, because a rule of the pod restarts all its containers",
			advice:    "find out which container with the action RestartAllContainers in restartPolicyRules ended, and why",
			transient: true,
		}), t)
	}
	return c.withCrashCount(c.cause(reason, c.exitText(t)), t)
}

// withCrashCount adds how often the container ended, and when it last did.
func (c *container) withCrashCount(cause Cause, t *corev1.ContainerStateTerminated) Cause {
	cause.Count = max(1, c.status.RestartCount)
	if c.status.State.Running == nil && c.status.RestartCount > 0 {
		cause.Count++ // the last end has not been followed by a restart yet
	}
	if t != nil {
		code := t.ExitCode
		cause.ExitCode, cause.Time = &code, t.FinishedAt.Time
	}
	return cause
}

func (c *container) outOfMemoryText() explanation {
	limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]
	if pod := c.pod.Spec.Resources; !ok && pod != nil {
		if limit, limited := pod.Limits[corev1.ResourceMemory]; limited {
			return explanation{
				message: c.label() + " was killed because the pod used more memory than its limit of " + limit.String(),
				advice:  "raise spec.resources.limits.memory of the pod, or reduce its memory use",
			}
		}
	}
	if !ok {
		return explanation{
			message: c.label() + " was killed because it ran out of memory",
			advice:  "reduce its memory use, or set a larger memory request and limit in resources",
		}
	}
	r := explanation{
		message: c.label() + " was killed because it used more memory than its limit of " + limit.String(),
		advice:  "raise resources.limits.memory, or reduce its memory use",
	}
	if c.limitedByRange() {
		r.message += ", which a LimitRange of the namespace sets for containers without one"
		r.advice = "set resources.limits.memory, or reduce its memory use"
	}
	return r
}

// limitRanger is the annotation in which the admission plugin LimitRanger says what it has set:
// plugin/pkg/admission/limitranger/admission.go.
const limitRanger = "kubernetes.io/limit-ranger"

// limitedByRange reports whether a LimitRange has set the memory limit of the container. Users can write the
// annotation, too.
func (c *container) limitedByRange() bool {
	for part := range strings.SplitSeq(c.pod.Annotations[limitRanger], ";") {
		what, of, _ := strings.Cut(part, " for ")
		if strings.Contains(what, "memory limit") && strings.TrimSpace(of) == "container "+c.name {
			return true
		}
	}
	return false
}

// exitText describes the exit code or signal, never the container's own output. It concludes nothing
// from an exit code, because each program chooses its own.
func (c *container) exitText(t *corev1.ContainerStateTerminated) explanation {
	r := explanation{message: fmt.Sprintf("%s ended with exit code %d", c.label(), t.ExitCode), advice: c.logAdvice()}
	if signal := signalOf(t); signal > 0 {
		r.message = fmt.Sprintf("%s was killed by signal %d (exit code %d)", c.label(), signal, t.ExitCode)
		if known, ok := signalAdvice[signal]; ok {
			r.advice = known + "; " + c.logAdvice()
		}
	}
	probe, text := c.killedByProbe(t)
	switch {
	case probe != "":
		r.message += " after its " + probe + " probe failed" + text
		r.advice = "check the probe's settings, or give the container more time (initialDelaySeconds, failureThreshold)"
	case t.ExitCode == 0:
		r.message += ", without an error, but must keep running"
	}
	return r
}

func signalOf(t *corev1.ContainerStateTerminated) int32 {
	const last = 64
	switch {
	case t.Signal > 0:
		return t.Signal
	case t.ExitCode > signalExitBase && t.ExitCode <= signalExitBase+last:
		return t.ExitCode - signalExitBase
	}
	return 0
}

// killedByProbe returns which probe ended the container with t, and the error of the probe.
// It returns "" if none did.
func (c *container) killedByProbe(t *corev1.ContainerStateTerminated) (probe, text string) {
	own := c.ownEvents()
	kill := latest(own, "Killing")
	if kill == nil || !c.explainsEnd(kill, t) {
		return "", ""
	}
	for _, probe := range []string{"liveness", "startup"} {
		if strings.Contains(kill.Note, "failed "+probe+" probe") {
			return probe, probeError(own, probe)
		}
	}
	return "", ""
}

// explainsEnd reports whether a Killing Event belongs to the end t. It came while that
// container ran, and its grace period was not over at the end.
func (c *container) explainsEnd(kill *Event, t *corev1.ContainerStateTerminated) bool {
	if kill.LastSeen.IsZero() || t.FinishedAt.IsZero() {
		return true
	}
	grace := maxEventDelay + time.Duration(ptr.Deref(c.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))*time.Second
	return !kill.LastSeen.Before(t.StartedAt.Time) && !kill.LastSeen.Before(t.FinishedAt.Add(-grace)) &&
		!kill.LastSeen.After(t.FinishedAt.Add(maxEventDelay))
}

// probeError returns the error of the last failure of a probe, as a part of a sentence.
func probeError(events []Event, probe string) string {
	for i := range slices.Backward(events) {
		note := lowerFirst(stripNoise(events[i].Note))
		if events[i].Reason == "Unhealthy" && strings.HasPrefix(note, probe) {
			_, text, _ := strings.Cut(note, ": ")
			return " (" + excerpt(text) + ")"
		}
	}
	return ""
}

// logAdvice returns how to read the log. The log of a deleted pod no longer exists.
func (c *container) logAdvice() string {
	if c.podDeleted {
		return "the pod and its log no longer exist"
	}
	if c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return "check its log (" + c.logCommand("") + ")"
	}
	return "check its log (" + c.logCommand(" --previous") + ")"
}

func (c *container) logCommand(options string) string {
	return fmt.Sprintf("kubectl logs -n %s %s -c %s%s", c.pod.Namespace, c.pod.Name, c.name, options)
}

// LastCrash returns the last failed end of any container, even if the container runs
// again. It can also be why a pod was evicted, rejected, preempted, or deleted because of a taint. It
// returns nil if there is none. It leaves out pods that succeeded, and ends that explain nothing: those
// that no one saw, and those of containers that were stopped. Use it for crashes between two reconciles.
func LastCrash(pods []*corev1.Pod) *Cause {
	var last *finding
	v := newView(Workload{Pods: pods})
	for _, p := range v.Pods {
		s := &podView{view: v, pod: p}
		for _, f := range s.pastFindings() {
			f.cause.sanitize()
			if last == nil || f.cause.Time.After(last.cause.Time) || f.cause.Time.Equal(last.cause.Time) && compareFindings(f, *last) < 0 {
				last = &f
			}
		}
	}
	if last == nil {
		return nil
	}
	return &last.cause
}

// pastFindings returns the last failed end of each container, or why the pod was ended or deleted.
func (s *podView) pastFindings() []finding {
	if cause, ok := s.disruptedCause(); ok {
		return []finding{{cause: cause}}
	}
	switch {
	case s.pod.Status.Phase == corev1.PodSucceeded:
		return nil
	case s.pod.Status.Phase == corev1.PodFailed && s.pod.Status.Reason != "":
		return []finding{{cause: s.rejectedCause()}}
	}
	var found []finding
	for _, c := range s.containers() {
		for _, t := range []*corev1.ContainerStateTerminated{c.status.State.Terminated, c.status.LastTerminationState.Terminated} {
			if failed(t) && !unseenReasons[t.Reason] && !c.wasStopped(t) {
				found = append(found, finding{cause: c.crashCause(ReasonError, t), position: c.position})
				break
			}
		}
	}
	return found
}

// wasStopped reports whether the kubelet stopped the container, because the pod is deleted or a rule
// restarts all containers. A sidecar is also stopped when all other containers have ended.
func (c *container) wasStopped(t *corev1.ContainerStateTerminated) bool {
	if t.Reason == restartedByRule || c.sidecar && c.pod.Status.Phase == corev1.PodFailed {
		return true
	}
	if c.pod.DeletionTimestamp == nil {
		return false
	}
	grace := time.Duration(ptr.Deref(c.pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return !t.FinishedAt.Time.Before(c.pod.DeletionTimestamp.Add(-grace))
}
