package diagnosis

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestACrashLoopEndsAfterTenMinutes(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	// restarted is a container that ran for a time, and runs again since.
	restarted := func(restarts int32, ran, since time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			RestartCount: restarts, Ready: true,
			State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(since)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: ago(since + ran), FinishedAt: ago(since), ExitCode: 1}},
		}
	}
	waits := restarted(2, time.Second, time.Minute)
	waits.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for name, tc := range map[string]struct {
		statuses []corev1.ContainerStatus
		want     time.Duration
	}{
		"it never ended":        {[]corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(0)}}}}, 0},
		"its first end":         {[]corev1.ContainerStatus{restarted(1, time.Second, time.Second)}, 0},
		"its second end":        {[]corev1.ContainerStatus{restarted(2, time.Second, time.Second)}, 10*time.Minute - time.Second},
		"it waits after it":     {[]corev1.ContainerStatus{waits}, 10 * time.Minute},
		"it has run for long":   {[]corev1.ContainerStatus{restarted(9, time.Second, 11*time.Minute)}, 0},
		"it had run for long":   {[]corev1.ContainerStatus{restarted(9, time.Hour, time.Second)}, 0},
		"one of two containers": {[]corev1.ContainerStatus{restarted(9, time.Hour, time.Second), restarted(3, time.Minute, 4*time.Minute)}, 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: tc.statuses}}
			if got := CrashLoopLeft([]*corev1.Pod{{}, pod}, now); got != tc.want {
				t.Errorf("CrashLoopLeft() = %v, want %v", got, tc.want)
			}
		})
	}
}
