package jupyter

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// setStatus sets the status in memory, and decides what is reported. It returns when to
// reconcile again if nothing changes.
func (r *Reconciler) setStatus(n *notebook) time.Duration {
	s := &n.jupyter.Status
	s.URL = workload.NotebookURL(n.jupyter)
	s.PodName, s.NodeName, s.ReadyReplicas = "", "", 0
	if n.pod != nil {
		s.PodName, s.NodeName = n.pod.Name, n.pod.Spec.NodeName
	}
	if kube.IsPodReady(n.pod) {
		s.ReadyReplicas = 1
	}
	grace := r.graceLeft(n)
	stalled := n.findings.Cause != nil && grace == 0
	s.StartTime = r.startTime(n, stalled)
	for _, c := range []metav1.Condition{
		n.findings.Stalled(stalled), n.progressing(stalled), n.scheduled(), n.storage(), n.access(), n.updatePending,
	} {
		r.Writer.SetCondition(n.jupyter, c)
	}
	r.setSuspended(n)
	var crash *diagnosis.Cause
	var unstable time.Duration
	if kube.IsPodReady(n.pod) && !n.jupyter.Spec.Suspend {
		crash, unstable = n.findings.Recovering(r.Clock.Now(), n.pod)
	}
	r.setReady(n, stalled, crash)
	again := step.Sooner(r.setUse(n), r.setFailing(n))
	s.LastFailure = n.findings.Remember(s.LastFailure, stalled, r.Clock.Now())
	report, wait := n.findings.Report(n.before, s.LastFailure, stalled, "the notebook serves at "+s.URL, r.Clock.Now())
	n.report = report
	return step.Sooner(grace, again, unstable, wait)
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

// startTime is nil if the notebook is not starting.
func (r *Reconciler) startTime(n *notebook, stalled bool) *metav1.Time {
	if n.jupyter.Spec.Suspend || stalled || kube.IsPodReady(n.pod) {
		return nil
	}
	if start := n.before.Status.StartTime; start != nil {
		return start
	}
	return inSeconds(r.Clock.Now())
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// setReady sets Ready and the state. A suspended notebook has no condition Ready. crash is one from
// which a ready pod has not recovered yet.
func (r *Reconciler) setReady(n *notebook, stalled bool, crash *diagnosis.Cause) {
	ready := kube.IsPodReady(n.pod)
	set := func(state v1alpha1.State, reason string) { r.Writer.SetState(n.jupyter, state, reason, stalled) }
	switch {
	case n.jupyter.Spec.Suspend:
		meta.RemoveStatusCondition(&n.jupyter.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case stalled:
			set(v1alpha1.StateStopping, n.findings.Cause.Reason)
		case n.pod != nil:
			set(v1alpha1.StateStopping, n.suspended().Reason)
		case n.isCulled():
			set(v1alpha1.StateCulled, culledReason(n.jupyter))
		default:
			set(v1alpha1.StateSuspended, "")
		}
		return
	case ready && stalled:
		set(v1alpha1.StateDegraded, n.findings.Cause.Reason)
	case ready && crash != nil:
		r.Writer.SetState(n.jupyter, v1alpha1.StateDegraded, crash.Reason, true)
	case ready && n.updatePending.Reason == v1alpha1.ReasonRestartNeeded:
		set(v1alpha1.StateReady, v1alpha1.ReasonRestartNeeded)
	case ready:
		set(v1alpha1.StateReady, "")
	case stalled:
		set(v1alpha1.StateFailing, n.findings.Cause.Reason)
	case n.findings.Cause != nil:
		set(v1alpha1.StateStarting, n.findings.Cause.Reason)
	default:
		set(v1alpha1.StateStarting, "")
	}
	c := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting, "the notebook is starting")
	if ready {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonReady, "the notebook serves at "+n.jupyter.Status.URL
	} else if n.findings.Cause != nil {
		c.Reason, c.Message = n.findings.Cause.Reason, n.findings.Lines()
	}
	r.Writer.SetCondition(n.jupyter, c)
}

func (n *notebook) progressing(stalled bool) metav1.Condition {
	progress := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionProgressing, status, reason, message)
	}
	switch {
	case stalled:
		return progress(metav1.ConditionFalse, n.findings.Cause.Reason, "see condition Stalled")
	case n.jupyter.Spec.Suspend && n.pod != nil:
		return progress(metav1.ConditionTrue, v1alpha1.ReasonStopping, "the notebook is stopping")
	case n.jupyter.Spec.Suspend:
		return progress(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "the notebook is stopped")
	case kube.IsPodReady(n.pod):
		return progress(metav1.ConditionFalse, v1alpha1.ReasonReady, "the notebook is up to date")
	case !status.FailingSince(n.before).IsZero():
		return progress(metav1.ConditionTrue, v1alpha1.ReasonRecovering, "the failure is no longer seen; the notebook is starting")
	}
	return progress(metav1.ConditionTrue, v1alpha1.ReasonStarting, "the notebook is starting")
}

func (n *notebook) scheduled() metav1.Condition {
	scheduled := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionPodScheduled, status, reason, message)
	}
	if n.pod == nil {
		return scheduled(metav1.ConditionUnknown, v1alpha1.ReasonNoPod, "there is no pod")
	}
	c := kube.PodCondition(n.pod, corev1.PodScheduled)
	switch {
	case n.pod.Spec.NodeName != "":
		return scheduled(metav1.ConditionTrue, v1alpha1.ReasonScheduled, "on node "+n.pod.Spec.NodeName)
	case c != nil && c.Status == corev1.ConditionFalse:
		return scheduled(metav1.ConditionFalse, cmp.Or(c.Reason, corev1.PodReasonUnschedulable), c.Message)
	}
	return scheduled(metav1.ConditionUnknown, v1alpha1.ReasonStarting, "the scheduler has not handled the pod yet")
}

func (n *notebook) storage() metav1.Condition {
	storage := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionStorageReady, status, reason, message)
	}
	name := claimName(n.jupyter)
	if name == "" {
		return storage(metav1.ConditionTrue, v1alpha1.ReasonNotRequested, "no storage is requested")
	}
	if c := n.findings.CauseAt("PersistentVolumeClaim", name); c != nil {
		return storage(metav1.ConditionFalse, c.Reason, c.Lines())
	}
	resizing := diagnosis.Resizing(&n.claim)
	switch {
	case resizing != "":
		return storage(metav1.ConditionTrue, v1alpha1.ReasonBound, "claim "+name+" is bound, and is "+resizing)
	case n.claim.UID == "" && !kube.IsPodReady(n.pod) && (n.blocked || n.jupyter.Spec.Suspend):
		return storage(metav1.ConditionUnknown, v1alpha1.ReasonNoPod, "claim "+name+" was not checked")
	case n.claim.Status.Phase == corev1.ClaimLost:
		return storage(metav1.ConditionFalse, diagnosis.ReasonClaimLost, "the volume of claim "+name+" is gone")
	case n.claim.Status.Phase == corev1.ClaimBound, kube.IsPodReady(n.pod): // a ready pod has mounted the claim
		return storage(metav1.ConditionTrue, v1alpha1.ReasonBound, "claim "+name+" is bound")
	}
	return storage(metav1.ConditionFalse, diagnosis.ReasonClaimPending, "claim "+name+" waits for a volume")
}

func (n *notebook) access() metav1.Condition {
	access := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionAccessReady, status, reason, message)
	}
	for _, kind := range []string{"Service", "Ingress"} {
		if c := n.findings.CauseAt(kind, n.name.Name); c != nil {
			return access(metav1.ConditionFalse, c.Reason, c.Lines())
		}
	}
	if n.blocked {
		return access(metav1.ConditionUnknown, v1alpha1.ReasonStarting, "another cause blocks the start")
	}
	return access(metav1.ConditionTrue, v1alpha1.ReasonReady, "reached at "+n.jupyter.Status.URL)
}

// setSuspended sets the condition Suspended. If the notebook never was suspended, the
// condition dates from its creation, not from its first reconcile: earlier Events belong
// to the first run.
func (r *Reconciler) setSuspended(n *notebook) {
	r.Writer.SetCondition(n.jupyter, n.suspended())
	if !n.jupyter.Spec.Suspend && meta.FindStatusCondition(n.before.Status.Conditions, v1alpha1.ConditionSuspended) == nil {
		meta.FindStatusCondition(n.jupyter.Status.Conditions, v1alpha1.ConditionSuspended).LastTransitionTime = n.jupyter.CreationTimestamp
	}
}

func (n *notebook) suspended() metav1.Condition {
	switch {
	case !n.jupyter.Spec.Suspend:
		return condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended, "spec.suspend is false")
	case n.isCulled() && culledReason(n.jupyter) == v1alpha1.ReasonCulledFailing:
		return condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonCulledFailing,
			"the notebook failed for too long: correct the cause in status.lastFailure, then set spec.suspend to false to start it again")
	case n.isCulled():
		return condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonCulled,
			"the notebook was unused: set spec.suspend to false to start it again")
	}
	return condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "set spec.suspend to false to start the notebook")
}
