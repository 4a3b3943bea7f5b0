package diagnosis

import (
	"time"
)

const (
	// stableAfter is how long a container must run before its next end counts as the first one. It
	// is the time after which the kubelet forgets its back-off.
	stableAfter = 10 * time.Minute
	// firstBackOff is the kubelet's first back-off. It restarts a container that ended once
	// without one, so that a crash loop begins with a restart that looks like a recovery.
	firstBackOff = 10 * time.Second
)

// Recovering returns the crash from which pods have not recovered yet although they can be ready,
// and how long they must still run. It returns nil if there is none. A container has recovered
// when it has run for ten seconds after its first end, and for ten minutes after further ones. In
// a crash loop, a pod can be ready for a moment after each restart.
//
// The Events of w show whether a probe ended the container.
func Recovering(w Workload, now time.Time) (*Cause, time.Duration) {
	var crash *Cause
	var longest time.Duration
	v := newView(w)
	for _, p := range v.Pods {
		for _, c := range v.podView(p).containers() {
			reason, left := c.recovery(now)
			if left <= longest {
				continue
			}
			cause := c.crashCause(reason, c.status.LastTerminationState.Terminated)
			cause.sanitize()
			crash, longest = &cause, left
		}
	}
	return crash, longest
}

// recovery returns the reason of the last end, and how long the container must still run.
func (c *container) recovery(now time.Time) (reason string, left time.Duration) {
	last := c.status.LastTerminationState.Terminated
	if last == nil || c.init && !c.sidecar { // an init container that succeeds does not run again
		return "", 0
	}
	reason, left = ReasonError, firstBackOff
	if c.status.RestartCount >= 2 && last.FinishedAt.Sub(last.StartedAt.Time) < stableAfter {
		reason, left = ReasonCrashLoopBackOff, stableAfter
	}
	if running := c.status.State.Running; running != nil { // else its controller still counts the pod as ready
		left -= now.Sub(running.StartedAt.Time)
	}
	return reason, max(0, left)
}
