package jupyter

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// setStatus says in memory how the notebook fares.
func (r *Reconciler) setStatus(n *notebook) {
	n.Status.ObservedGeneration = n.Generation
	n.Status.URL = workload.NotebookURL(n.Jupyter)
	n.Status.PodName, n.Status.NodeName, n.Status.ReadyReplicas = "", "", 0
	if n.pod != nil {
		n.Status.PodName, n.Status.NodeName = n.pod.Name, n.pod.Spec.NodeName
	}
	if kube.IsPodReady(n.pod) {
		n.Status.ReadyReplicas = 1
	}
	stalled := n.Cause != nil && !r.isInGrace(n)
	condition.Set(&n.Status.Conditions, n.ready(), r.Clock)
	r.Stalled(n.State, stalled)
	for _, c := range []metav1.Condition{
		n.progressing(stalled), n.scheduled(), n.storage(), n.access(), n.updatePending,
	} {
		condition.Set(&n.Status.Conditions, c, r.Clock)
	}
	r.setSuspended(n)
	r.setUse(n)
	failure := n.Crash
	if stalled {
		failure = n.Cause
	}
	n.Status.LastFailure = reconciler.Remember(n.Status.LastFailure, failure, r.Clock.Now())
}

// Times within which what is in the way is nothing out of the ordinary.
const (
	probeGrace = time.Minute      // the server is busy
	mountGrace = 10 * time.Second // a kubelet's caches have not seen what is mounted
)

// isInGrace tells whether it is too early to call for help, and has the notebook
// looked at when it no longer is.
func (r *Reconciler) isInGrace(n *notebook) bool {
	var grace time.Duration
	switch n.Cause.Reason {
	case diagnosis.ReasonFailedScheduling, diagnosis.ReasonClaimPending:
		grace = n.Spec.SchedulingGracePeriod()
	case diagnosis.ReasonUnhealthy:
		grace = min(probeGrace, n.Spec.ProgressDeadline())
		if !hasStarted(n.pod) {
			grace = min(workload.NotebookStartup, n.Spec.ProgressDeadline())
		}
	case diagnosis.ReasonFailedMount, diagnosis.ReasonFailedAttachVolume:
		grace = mountGrace
	}
	left := grace - r.Clock.Since(r.waitingSince(n))
	if left <= 0 {
		return false
	}
	n.RequeueAfter(left)
	return true
}

// waitingSince is when what is in the way could first be.
func (r *Reconciler) waitingSince(n *notebook) time.Time {
	if n.pod == nil {
		return r.StartedAt(n.State)
	}
	since := n.pod.CreationTimestamp.Time
	after := func(t metav1.Time) {
		if t.After(since) {
			since = t.Time
		}
	}
	switch n.Cause.Reason {
	case diagnosis.ReasonUnhealthy:
		if c := kube.PodCondition(n.pod, corev1.PodReady); c != nil {
			after(c.LastTransitionTime)
		}
		if isRunning(n.pod) {
			after(serverOf(n.pod).State.Running.StartedAt)
		}
	case diagnosis.ReasonFailedMount, diagnosis.ReasonFailedAttachVolume:
		if c := kube.PodCondition(n.pod, corev1.PodScheduled); c != nil {
			after(c.LastTransitionTime)
		}
	}
	return since
}

// ready follows the readiness of the pod.
func (n *notebook) ready() metav1.Condition {
	status, reason, message := metav1.ConditionFalse, v1alpha1.ReasonStarting, "the notebook is being started"
	switch {
	case n.Spec.Suspend:
		reason, message = v1alpha1.ReasonSuspended, "set spec.suspend to false to start the notebook"
	case kube.IsPodReady(n.pod):
		status, reason, message = metav1.ConditionTrue, v1alpha1.ReasonReady, "the notebook serves at "+n.Status.URL
	case n.Cause != nil:
		reason, message = n.Cause.Reason, n.Sentence()
	}
	return n.Condition(v1alpha1.ConditionReady, status, reason, message)
}

func (n *notebook) progressing(stalled bool) metav1.Condition {
	status, reason, message := metav1.ConditionFalse, v1alpha1.ReasonReady, "the notebook is what is asked for"
	switch {
	case n.Spec.Suspend && n.pod != nil:
		status, reason, message = metav1.ConditionTrue, v1alpha1.ReasonStopping, "the notebook is being stopped"
	case n.Spec.Suspend:
		reason, message = v1alpha1.ReasonSuspended, "the notebook is stopped"
	case stalled:
		reason, message = n.Cause.Reason, "see condition Stalled"
	case kube.IsPodReady(n.pod):
	default:
		status, reason, message = metav1.ConditionTrue, v1alpha1.ReasonStarting, "the notebook is being started"
		if _, failed := n.FailedSince(); failed {
			reason, message = v1alpha1.ReasonRecovering, "what was in the way is gone; the notebook is being started"
		}
	}
	return n.Condition(v1alpha1.ConditionProgressing, status, reason, message)
}

func (n *notebook) scheduled() metav1.Condition {
	if n.pod == nil {
		return n.Condition(v1alpha1.ConditionPodScheduled, metav1.ConditionUnknown, v1alpha1.ReasonNoPod, "there is no pod")
	}
	c := kube.PodCondition(n.pod, corev1.PodScheduled)
	switch {
	case n.pod.Spec.NodeName != "":
		return n.Condition(v1alpha1.ConditionPodScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled, "on node "+n.pod.Spec.NodeName)
	case c != nil && c.Status == corev1.ConditionFalse:
		return n.Condition(v1alpha1.ConditionPodScheduled, metav1.ConditionFalse,
			cmp.Or(c.Reason, corev1.PodReasonUnschedulable), c.Message)
	}
	return n.Condition(v1alpha1.ConditionPodScheduled, metav1.ConditionUnknown, v1alpha1.ReasonStarting, "the scheduler has not seen the pod yet")
}

func (n *notebook) storage() metav1.Condition {
	name := claimName(n.Jupyter)
	if name == "" {
		return n.Condition(v1alpha1.ConditionStorageReady, metav1.ConditionTrue, v1alpha1.ReasonNotRequested, "no storage is asked for")
	}
	if c := n.CauseAt("PersistentVolumeClaim", name); c != nil {
		return n.Condition(v1alpha1.ConditionStorageReady, metav1.ConditionFalse, c.Reason, c.Sentence())
	}
	switch {
	case n.claim.UID == "" && !kube.IsPodReady(n.pod) && (n.Stop || n.Spec.Suspend):
		return n.Condition(v1alpha1.ConditionStorageReady, metav1.ConditionUnknown, v1alpha1.ReasonNoPod, "claim "+name+" was not looked at")
	case n.claim.Status.Phase == corev1.ClaimLost:
		return n.Condition(v1alpha1.ConditionStorageReady, metav1.ConditionFalse, diagnosis.ReasonClaimLost, "the volume of claim "+name+" is gone")
	case n.claim.Status.Phase == corev1.ClaimBound, kube.IsPodReady(n.pod): // a pod that is ready mounts the claim
		return n.Condition(v1alpha1.ConditionStorageReady, metav1.ConditionTrue, v1alpha1.ReasonBound, "claim "+name+" is bound")
	}
	return n.Condition(v1alpha1.ConditionStorageReady, metav1.ConditionFalse, diagnosis.ReasonClaimPending, "claim "+name+" waits for a volume")
}

func (n *notebook) access() metav1.Condition {
	for _, kind := range []string{"Service", "Ingress"} {
		if c := n.CauseAt(kind, n.Name); c != nil {
			return n.Condition(v1alpha1.ConditionAccessReady, metav1.ConditionFalse, c.Reason, c.Sentence())
		}
	}
	if n.Stop {
		return n.Condition(v1alpha1.ConditionAccessReady, metav1.ConditionUnknown, v1alpha1.ReasonStarting, "something else is in the way")
	}
	return n.Condition(v1alpha1.ConditionAccessReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "reached at "+n.Status.URL)
}

// setSuspended says of a notebook that never was suspended that it is not since it was
// created, and not since it was first looked at: what was told of it in between is of
// this run too.
func (r *Reconciler) setSuspended(n *notebook) {
	condition.Set(&n.Status.Conditions, n.suspended(), r.Clock)
	if !n.Spec.Suspend && n.Before(v1alpha1.ConditionSuspended) == nil {
		meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionSuspended).LastTransitionTime = n.CreationTimestamp
	}
}

func (n *notebook) suspended() metav1.Condition {
	switch {
	case !n.Spec.Suspend:
		return n.Condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended, "spec.suspend is false")
	case n.Annotations[v1alpha1.AnnotationCulledAt] != "":
		return n.Condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonCulled,
			"nobody used the notebook: set spec.suspend to false to start it again")
	}
	return n.Condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend is true")
}
