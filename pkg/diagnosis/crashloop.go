package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stableAfter is how long a container must run before its next end counts as the first one. It
// is the time after which the kubelet forgets its back-off.
const stableAfter = 10 * time.Minute

// CrashLoopLeft returns how long the pods must still run until they have recovered from a crash
// loop. It is 0 if no container of them is in one: if none ended twice, or if each ran for ten
// minutes. In a crash loop, a pod can be ready for a moment after each restart.
func CrashLoopLeft(pods []*corev1.Pod, now time.Time) time.Duration {
	var left time.Duration
	for _, p := range pods {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			last := c.LastTerminationState.Terminated
			switch {
			case c.RestartCount < 2 || last == nil || last.FinishedAt.Sub(last.StartedAt.Time) >= stableAfter:
			case c.State.Running == nil: // its controller still counts the pod as ready
				left = stableAfter
			default:
				left = max(left, stableAfter-now.Sub(c.State.Running.StartedAt.Time))
			}
		}
	}
	return left
}
