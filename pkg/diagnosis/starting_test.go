package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAProbeThatMayStillFailIsNoFailure(t *testing.T) {
	startup := &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 6}
	startup.HTTPGet = &corev1.HTTPGetAction{Path: "/"}
	probed := func(now int, restarts int32) Workload {
		s := corev1.ContainerStatus{State: runningSince(0), RestartCount: restarts}
		if restarts > 0 {
			s.LastTerminationState = ended("Error", 137, -1)
		}
		p := newPod(status(s), func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = startup })
		w := Workload{Pods: pods(p), Events: []Event{podEvent(5, "notebook", "Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503")}}
		if now >= 0 {
			w.Now = at(now)
		}
		return w
	}
	for name, tc := range map[string]struct {
		w        Workload
		starting bool
		reason   string
	}{
		"in time":                {probed(20, 0), true, ReasonUnhealthy},
		"at the last moment":     {probed(59, 0), true, ReasonUnhealthy},
		"late":                   {probed(60, 0), false, ReasonUnhealthy},
		"the time is unknown":    {probed(-1, 0), false, ReasonUnhealthy},
		"after it was restarted": {probed(20, 1), false, ReasonError},
	} {
		d := Diagnose(tc.w)
		if d.Cause == nil || d.Cause.Reason != tc.reason || d.Cause.LateAfter.IsZero() == tc.starting || strings.Contains(d.Cause.Message, "still starting") != tc.starting {
			t.Errorf("%s: %+v", name, d.Cause)
		}
		if tc.starting && !d.Cause.LateAfter.Equal(at(60)) {
			t.Errorf("%s: late after %s", name, d.Cause.LateAfter)
		}
		for _, other := range d.Others {
			if !tc.starting && !other.LateAfter.IsZero() {
				t.Errorf("%s: %+v is only starting", name, other)
			}
		}
	}
}

func TestAContainerThatRunsOnIsTheCauseAfterItsTime(t *testing.T) {
	completed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metaAt(0)}}
	beside := func(other string, policy corev1.RestartPolicy, minutes int) Workload {
		p := newPod(status(corev1.ContainerStatus{State: completed}), status(corev1.ContainerStatus{Name: other, Ready: true, State: runningSince(0)}))
		p.Spec.RestartPolicy, p.Status.Phase = policy, corev1.PodRunning
		return Workload{Pods: pods(p), Now: at(60 * minutes)}
	}
	for name, tc := range map[string]struct {
		w    Workload
		want bool
	}{
		"a proxy":                       {beside("istio-proxy", corev1.RestartPolicyNever, 6), true},
		"a proxy that was just left":    {beside("istio-proxy", corev1.RestartPolicyNever, 4), false},
		"another one":                   {beside("worker", corev1.RestartPolicyOnFailure, 31), true},
		"another one with work to do":   {beside("worker", corev1.RestartPolicyNever, 29), false},
		"a container that is restarted": {beside("istio-proxy", corev1.RestartPolicyAlways, 60), false},
	} {
		d := Diagnose(tc.w)
		if got := d.Cause != nil && d.Cause.Reason == ReasonContainerStillRunning; got != tc.want {
			t.Errorf("%s: %+v", name, d.Cause)
		}
	}
}
