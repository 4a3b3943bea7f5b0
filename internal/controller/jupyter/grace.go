package jupyter

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// assess decides whether the cause is a failure or a normal part of a start, and whether a ready
// pod has recovered. It returns when this may change, or the advice.
func (r *Reconciler) assess(_ context.Context, n *notebook) (step.Result, error) {
	grace := r.graceLeft(n)
	n.stalled = n.findings.Cause != nil && grace == 0
	var unstable time.Duration
	if n.ready && !n.suspend {
		n.crash, unstable = n.findings.Recovering(r.Clock.Now(), n.pod)
	}
	return step.Result{RequeueAfter: step.Sooner(grace, unstable, n.findings.WaitLeft(r.Clock.Now()))}, nil
}

// probeGrace is how long a busy server may fail its probe.
const probeGrace = time.Minute

// graceLeft returns how long the cause may still be a normal part of a start.
func (r *Reconciler) graceLeft(n *notebook) time.Duration {
	if left := n.findings.FormerGraceLeft(r.Clock.Now()); left > 0 || n.findings.Cause == nil {
		return left
	}
	spec := &n.jupyter.Spec
	var grace time.Duration
	switch n.findings.Cause.Reason {
	case diagnosis.ReasonFailedScheduling, diagnosis.ReasonClaimPending:
		grace = spec.SchedulingGracePeriod()
	case diagnosis.ReasonUnhealthy:
		grace = min(probeGrace, spec.ProgressDeadline())
		if !hasStarted(n.pod) {
			grace = min(workload.NotebookStartup, spec.ProgressDeadline())
		}
	case diagnosis.ReasonPodInitializing, diagnosis.ReasonReadinessGatesNotReady:
		grace = spec.ProgressDeadline()
	}
	if n.findings.IsSetUp() {
		grace = reconciler.SetUpGrace
	}
	return max(n.findings.StartLeft(r.Clock.Now()), grace-r.Clock.Since(r.waitingSince(n)))
}

// waitingSince is the earliest time at which the cause could have occurred.
func (r *Reconciler) waitingSince(n *notebook) time.Time {
	if n.pod == nil {
		return r.startedAt(n)
	}
	since := n.pod.CreationTimestamp.Time
	after := func(t metav1.Time) {
		if t.After(since) {
			since = t.Time
		}
	}
	switch {
	case n.findings.Cause.Reason == diagnosis.ReasonUnhealthy:
		if c := kube.PodCondition(n.pod, corev1.PodReady); c != nil {
			after(c.LastTransitionTime)
		}
		if isRunning(n.pod) {
			after(serverOf(n.pod).State.Running.StartedAt)
		}
	case n.findings.IsSetUp():
		if c := kube.PodCondition(n.pod, corev1.PodScheduled); c != nil {
			after(c.LastTransitionTime)
		}
	}
	return since
}

// startedAt returns when the present start began. It is zero if the start has already
// exceeded its deadline.
func (r *Reconciler) startedAt(n *notebook) time.Time {
	before := &n.before.Status
	stalled := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionStalled)
	switch {
	case stalled != nil && stalled.Status == metav1.ConditionTrue &&
		stalled.Reason == diagnosis.ReasonProgressDeadlineExceeded && stalled.ObservedGeneration == n.jupyter.Generation:
		return time.Time{}
	case before.StartTime != nil:
		return before.StartTime.Time
	}
	return r.Clock.Now()
}
