package diagnosis

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRecoveringEndsAfterSomeTime(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	// restarted is a container that ran for a time, and runs again since.
	restarted := func(name string, restarts int32, ran, since time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, RestartCount: restarts, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(since)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				StartedAt: ago(since + ran), FinishedAt: ago(since), ExitCode: restarts,
			}},
		}
	}
	waits := restarted("app", 2, time.Second, time.Minute)
	waits.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	oom := restarted("app", 1, time.Second, time.Second)
	oom.LastTerminationState.Terminated.Reason = "OOMKilled"
	completed := restarted("migrate", 3, time.Second, time.Second)
	completed.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, tc := range map[string]struct {
		inits, mains []corev1.ContainerStatus
		left         time.Duration
		reason, what string
	}{
		"it never ended":            {mains: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(0)}}}}},
		"its first end":             {mains: []corev1.ContainerStatus{restarted("app", 1, time.Hour, time.Second)}, left: 9 * time.Second, reason: "Error", what: `container "app" ended with exit code 1`},
		"its first end was an OOM":  {mains: []corev1.ContainerStatus{oom}, left: 9 * time.Second, reason: "OOMKilled", what: `container "app" was killed because it ran out of memory`},
		"long since its first end":  {mains: []corev1.ContainerStatus{restarted("app", 1, time.Second, 10*time.Second)}},
		"its second end":            {mains: []corev1.ContainerStatus{restarted("app", 2, time.Second, time.Second)}, left: 10*time.Minute - time.Second, reason: "CrashLoopBackOff", what: `container "app" ended with exit code 2`},
		"it waits after it":         {mains: []corev1.ContainerStatus{waits}, left: 10 * time.Minute, reason: "CrashLoopBackOff", what: `container "app" ended with exit code 2`},
		"it has run for long":       {mains: []corev1.ContainerStatus{restarted("app", 9, time.Second, 11*time.Minute)}},
		"it had run for long":       {mains: []corev1.ContainerStatus{restarted("app", 9, time.Hour, time.Second)}, left: 9 * time.Second, reason: "Error", what: `container "app" ended with exit code 9`},
		"one of two containers":     {mains: []corev1.ContainerStatus{restarted("app", 9, time.Hour, time.Second), restarted("other", 3, time.Minute, 4*time.Minute)}, left: 6 * time.Minute, reason: "CrashLoopBackOff", what: `container "other" ended with exit code 3`},
		"an init container is over": {inits: []corev1.ContainerStatus{completed}},
		"a sidecar":                 {inits: []corev1.ContainerStatus{restarted("proxy", 2, time.Second, time.Second)}, left: 10*time.Minute - time.Second, reason: "CrashLoopBackOff", what: `container "proxy" ended with exit code 2`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "migrate"}, {Name: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
					Containers:     []corev1.Container{{Name: "app"}, {Name: "other"}},
				},
				Status: corev1.PodStatus{InitContainerStatuses: tc.inits, ContainerStatuses: tc.mains},
			}
			crash, left := Recovering(Workload{Pods: []*corev1.Pod{{}, pod}}, now)
			if crash == nil {
				crash = &Cause{}
			}
			if left != tc.left || crash.Reason != tc.reason || crash.Message != tc.what {
				t.Errorf("Recovering() = %s %q, %v, want %s %q, %v", crash.Reason, crash.Message, left, tc.reason, tc.what, tc.left)
			}
		})
	}
}
