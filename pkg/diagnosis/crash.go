package diagnosis

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// failed tells whether a container's end was not a good one.
func failed(t *corev1.ContainerStateTerminated) bool {
	return t != nil && (t.ExitCode != 0 || t.Reason == ReasonOOMKilled)
}

// notStarted are the reasons of an end by which the runtime says that the command
// could not be run. Their message is the runtime's own. That of any other end may be
// lines of the container's log, and is never told.
var startErrors = map[string]bool{"StartError": true, "ContainerCannotRun": true}

// signalled is added to a signal's number to make an exit code.
const signalExitBase = 128

// signalAdvice is what the signals that end containers mean.
var signalAdvice = map[int32]string{
	6:  "it aborted itself",
	9:  "something else than Kubernetes' memory limit killed it, a process of its own or the node",
	11: "it accessed memory that is not its own, which is a bug in it or in a library",
	15: "it was told to stop",
}

// codeAdvice is what exit codes mean by convention.
var codeAdvice = map[int32]string{
	126: "its command is not executable; check command and args",
	127: "its command was not found; check command and args, and the image",
}

// crash is a container that ended, how being t, or nil if it is not known.
func (c *container) crashCause(reason string, t *corev1.ContainerStateTerminated) Cause {
	if t == nil {
		return c.withCrashCount(c.cause(reason, explanation{message: c.label() + " ends again and again", advice: c.logAdvice()}), nil)
	}
	if t.Reason == ReasonOOMKilled {
		return c.withCrashCount(c.cause(ReasonOOMKilled, c.outOfMemoryText()), t)
	}
	if startErrors[t.Reason] {
		return c.withCrashCount(c.createCause(ReasonRunContainerError, t.Message), t)
	}
	return c.withCrashCount(c.cause(reason, c.exitText(t)), t)
}

// counted says how often the container has ended, and when it did last.
func (c *container) withCrashCount(cause Cause, t *corev1.ContainerStateTerminated) Cause {
	cause.Count = max(1, c.status.RestartCount)
	if c.status.State.Running == nil && c.status.RestartCount > 0 {
		cause.Count++ // the end that it has not been restarted after yet
	}
	if t != nil {
		code := t.ExitCode
		cause.ExitCode, cause.Time = &code, t.FinishedAt.Time
	}
	return cause
}

func (c *container) outOfMemoryText() explanation {
	limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]
	if !ok {
		return explanation{
			message: c.label() + " was killed because memory ran out",
			advice:  "have it use less, or give it a memory request and limit (resources) that it gets by with",
		}
	}
	return explanation{
		message: c.label() + " was killed because it used more memory than its limit of " + limit.String(),
		advice:  "raise resources.limits.memory, or have it use less",
	}
}

// exit says how the container ended. What it wrote itself is not told.
func (c *container) exitText(t *corev1.ContainerStateTerminated) explanation {
	r := explanation{message: fmt.Sprintf("%s ended with exit code %d", c.label(), t.ExitCode), advice: c.logAdvice()}
	if known, ok := codeAdvice[t.ExitCode]; ok {
		r.advice = known
	}
	if signal := signalOf(t); signal > 0 {
		r.message = fmt.Sprintf("%s was killed by signal %d (exit code %d)", c.label(), signal, t.ExitCode)
		if known, ok := signalAdvice[signal]; ok {
			r.advice = known + "; " + c.logAdvice()
		}
	}
	if probe := c.killedByProbe(); probe != "" {
		r.message += " after its " + probe
		r.advice = "check that the probe asks for the right thing, or give the container more time (initialDelaySeconds, failureThreshold)"
	}
	if t.ExitCode == 0 {
		r.advice = "it is to run for good: check command and args"
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

// killedByProbe returns which probe had the container restarted, or "".
func (c *container) killedByProbe() string {
	kill := latest(c.ownEvents(), "Killing")
	for _, probe := range []string{"liveness", "startup"} {
		if kill != nil && strings.Contains(kill.Note, "failed "+probe+" probe") {
			return probe + " probe failed"
		}
	}
	return ""
}

// seeLog is where to read on. Of a pod that is gone, there is no log left.
func (c *container) logAdvice() string {
	if c.podDeleted {
		return "the pod is gone, and its log with it"
	}
	previous := " --previous"
	if c.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		previous = ""
	}
	return fmt.Sprintf("its log says why (kubectl logs %s -c %s%s)", c.pod.Name, c.name, previous)
}

// Crashed returns the last end of any container that is not a good one, though the
// container may run again by now; nil if there is none. It is for what happened
// while nobody looked.
func LastCrash(pods []*corev1.Pod) *Cause {
	var last *finding
	v := newView(Workload{Pods: pods})
	for _, p := range v.Pods {
		s := &podView{view: v, pod: p}
		for _, c := range s.containers() {
			t := c.lastEnd()
			if !failed(t) {
				continue
			}
			f := finding{cause: c.crashCause(ReasonError, t), position: c.position}
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

func (c *container) lastEnd() *corev1.ContainerStateTerminated {
	if c.status.State.Terminated != nil {
		return c.status.State.Terminated
	}
	return c.status.LastTerminationState.Terminated
}
