package jupyter

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/diagnosis"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/workload"
)

// setStatus says in memory how the notebook fares.
func (r *Reconciler) setStatus(n *notebook) {
	n.Status.ObservedGeneration = n.Generation
	n.Status.URL = workload.NotebookURL(n.Jupyter)
	n.Status.PodName, n.Status.NodeName, n.Status.ReadyReplicas = "", "", 0
	if n.pod != nil {
		n.Status.PodName, n.Status.NodeName = n.pod.Name, n.pod.Spec.NodeName
	}
	if isReady(n.pod) {
		n.Status.ReadyReplicas = 1
	}
	stalled := n.cause != nil && !r.isInGrace(n)
	kube.SetCondition(&n.Status.Conditions, n.ready(), r.Clock)
	r.setStalled(n, stalled)
	for _, c := range []metav1.Condition{
		n.progressing(stalled), n.scheduled(), n.storage(), n.access(), n.updatePending,
	} {
		kube.SetCondition(&n.Status.Conditions, c, r.Clock)
	}
	r.setSuspended(n)
	r.setUse(n)
	failure := n.crash
	if stalled {
		failure = n.cause
	}
	n.Status.LastFailure = diagnosis.Remember(n.Status.LastFailure, failure, r.Clock.Now())
}

// setStalled keeps the time when it began to be stalled, for whatever reason: an
// Event that tells of a reason is told once from then on.
func (r *Reconciler) setStalled(n *notebook, stalled bool) {
	c := n.condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled, "nothing is in the way")
	if stalled {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, n.cause.Reason, n.sentence()
	}
	c.LastTransitionTime = metav1.NewTime(r.Clock.Now().Truncate(time.Second))
	meta.SetStatusCondition(&n.Status.Conditions, c)
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
	switch n.cause.Reason {
	case v1alpha1.ReasonFailedScheduling, v1alpha1.ReasonClaimPending:
		grace = n.Spec.SchedulingGracePeriod()
	case v1alpha1.ReasonUnhealthy:
		grace = min(probeGrace, n.Spec.ProgressDeadline())
		if !hasStarted(n.pod) {
			grace = min(workload.NotebookStartup, n.Spec.ProgressDeadline())
		}
	case v1alpha1.ReasonFailedMount, v1alpha1.ReasonFailedAttachVolume:
		grace = mountGrace
	}
	left := grace - r.Clock.Since(r.waitingSince(n))
	if left <= 0 {
		return false
	}
	n.within(left)
	return true
}

// waitingSince is when what is in the way could first be.
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
	switch n.cause.Reason {
	case v1alpha1.ReasonUnhealthy:
		if c := podCondition(n.pod, corev1.PodReady); c != nil {
			after(c.LastTransitionTime)
		}
		if isRunning(n.pod) {
			after(serverOf(n.pod).State.Running.StartedAt)
		}
	case v1alpha1.ReasonFailedMount, v1alpha1.ReasonFailedAttachVolume:
		if c := podCondition(n.pod, corev1.PodScheduled); c != nil {
			after(c.LastTransitionTime)
		}
	}
	return since
}

// startedAt is when the notebook was last made to run, or what was in the way went.
func (r *Reconciler) startedAt(n *notebook) time.Time {
	stalled := n.stalledBefore()
	if stalled != nil && stalled.Reason == v1alpha1.ReasonProgressDeadlineExceeded && stalled.ObservedGeneration == n.Generation {
		return time.Time{} // it has had its time
	}
	if c := meta.FindStatusCondition(n.before.Status.Conditions, v1alpha1.ConditionProgressing); isStarting(c) {
		return c.LastTransitionTime.Time
	}
	return r.Clock.Now()
}

func isStarting(progressing *metav1.Condition) bool {
	return progressing != nil && (progressing.Reason == v1alpha1.ReasonStarting || progressing.Reason == v1alpha1.ReasonRecovering) &&
		progressing.Status == metav1.ConditionTrue
}

// failedSince is when it was first told that the notebook does not run, if it was not
// told since that it does.
func (n *notebook) failedSince() (time.Time, bool) {
	if c := n.stalledBefore(); c != nil {
		return c.LastTransitionTime.Time, true
	}
	c := meta.FindStatusCondition(n.before.Status.Conditions, v1alpha1.ConditionProgressing)
	if c == nil || c.Reason != v1alpha1.ReasonRecovering {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, true
}

// maxOthers is how many further causes are named.
const maxOthers = 5

// sentence says what is in the way, and names what else is.
func (n *notebook) sentence() string {
	text := n.cause.Sentence()
	if len(n.others) == 0 {
		return text
	}
	named := n.others[:min(len(n.others), maxOthers)]
	others := make([]string, len(named), maxOthers+1)
	for i, c := range named {
		others[i] = strings.TrimSpace(fmt.Sprintf("%s of %s %s %s", c.Reason, c.Object.Kind, c.Object.Name, c.Container))
	}
	if more := len(n.others) - len(named); more > 0 {
		others = append(others, fmt.Sprintf("and %d more", more))
	}
	return text + " (besides: " + strings.Join(others, ", ") + ")"
}

// ready follows the readiness of the pod.
func (n *notebook) ready() metav1.Condition {
	status, reason, message := metav1.ConditionFalse, v1alpha1.ReasonStarting, "the notebook is being started"
	switch {
	case n.Spec.Suspend:
		reason, message = v1alpha1.ReasonSuspended, "set spec.suspend to false to start the notebook"
	case isReady(n.pod):
		status, reason, message = metav1.ConditionTrue, v1alpha1.ReasonReady, "the notebook serves at "+n.Status.URL
	case n.cause != nil:
		reason, message = n.cause.Reason, n.sentence()
	}
	return n.condition(v1alpha1.ConditionReady, status, reason, message)
}

func (n *notebook) progressing(stalled bool) metav1.Condition {
	status, reason, message := metav1.ConditionFalse, v1alpha1.ReasonReady, "the notebook is what is asked for"
	switch {
	case n.Spec.Suspend && n.pod != nil:
		status, reason, message = metav1.ConditionTrue, v1alpha1.ReasonStopping, "the notebook is being stopped"
	case n.Spec.Suspend:
		reason, message = v1alpha1.ReasonSuspended, "the notebook is stopped"
	case stalled:
		reason, message = n.cause.Reason, "see condition Stalled"
	case isReady(n.pod):
	default:
		status, reason, message = metav1.ConditionTrue, v1alpha1.ReasonStarting, "the notebook is being started"
		if _, failed := n.failedSince(); failed {
			reason, message = v1alpha1.ReasonRecovering, "what was in the way is gone; the notebook is being started"
		}
	}
	return n.condition(v1alpha1.ConditionProgressing, status, reason, message)
}

func (n *notebook) scheduled() metav1.Condition {
	if n.pod == nil {
		return n.condition(v1alpha1.ConditionPodScheduled, metav1.ConditionUnknown, v1alpha1.ReasonNoPod, "there is no pod")
	}
	c := podCondition(n.pod, corev1.PodScheduled)
	switch {
	case n.pod.Spec.NodeName != "":
		return n.condition(v1alpha1.ConditionPodScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled, "on node "+n.pod.Spec.NodeName)
	case c != nil && c.Status == corev1.ConditionFalse:
		return n.condition(v1alpha1.ConditionPodScheduled, metav1.ConditionFalse,
			cmp.Or(c.Reason, corev1.PodReasonUnschedulable), c.Message)
	}
	return n.condition(v1alpha1.ConditionPodScheduled, metav1.ConditionUnknown, v1alpha1.ReasonStarting, "the scheduler has not seen the pod yet")
}

func (n *notebook) storage() metav1.Condition {
	name := claimName(n.Jupyter)
	if name == "" {
		return n.condition(v1alpha1.ConditionStorageReady, metav1.ConditionTrue, v1alpha1.ReasonNotRequested, "no storage is asked for")
	}
	if c := n.causeAt("PersistentVolumeClaim", name); c != nil {
		return n.condition(v1alpha1.ConditionStorageReady, metav1.ConditionFalse, c.Reason, c.Sentence())
	}
	switch {
	case n.claim.UID == "" && !isReady(n.pod) && (n.stop || n.Spec.Suspend):
		return n.condition(v1alpha1.ConditionStorageReady, metav1.ConditionUnknown, v1alpha1.ReasonNoPod, "claim "+name+" was not looked at")
	case n.claim.Status.Phase == corev1.ClaimLost:
		return n.condition(v1alpha1.ConditionStorageReady, metav1.ConditionFalse, v1alpha1.ReasonClaimLost, "the volume of claim "+name+" is gone")
	case n.claim.Status.Phase == corev1.ClaimBound, isReady(n.pod): // a pod that is ready mounts the claim
		return n.condition(v1alpha1.ConditionStorageReady, metav1.ConditionTrue, v1alpha1.ReasonBound, "claim "+name+" is bound")
	}
	return n.condition(v1alpha1.ConditionStorageReady, metav1.ConditionFalse, v1alpha1.ReasonClaimPending, "claim "+name+" waits for a volume")
}

func (n *notebook) access() metav1.Condition {
	for _, kind := range []string{"Service", "Ingress"} {
		if c := n.causeAt(kind, n.Name); c != nil {
			return n.condition(v1alpha1.ConditionAccessReady, metav1.ConditionFalse, c.Reason, c.Sentence())
		}
	}
	if n.stop {
		return n.condition(v1alpha1.ConditionAccessReady, metav1.ConditionUnknown, v1alpha1.ReasonStarting, "something else is in the way")
	}
	return n.condition(v1alpha1.ConditionAccessReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "reached at "+n.Status.URL)
}

// causeAt returns the cause that lies in an object, if any does.
func (n *notebook) causeAt(kind, name string) *diagnosis.Cause {
	object := diagnosis.Object{Kind: kind, Name: name}
	if n.cause != nil && n.cause.Object == object {
		return n.cause
	}
	for i := range n.others {
		if n.others[i].Object == object {
			return &n.others[i]
		}
	}
	return nil
}

// setSuspended says of a notebook that never was suspended that it is not since it was
// created, and not since it was first looked at: what was told of it in between is of
// this run too.
func (r *Reconciler) setSuspended(n *notebook) {
	kube.SetCondition(&n.Status.Conditions, n.suspended(), r.Clock)
	if !n.Spec.Suspend && meta.FindStatusCondition(n.before.Status.Conditions, v1alpha1.ConditionSuspended) == nil {
		meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionSuspended).LastTransitionTime = n.CreationTimestamp
	}
}

func (n *notebook) suspended() metav1.Condition {
	switch {
	case !n.Spec.Suspend:
		return n.condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended, "spec.suspend is false")
	case n.Annotations[v1alpha1.AnnotationCulledAt] != "":
		return n.condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonCulled,
			"nobody used the notebook: set spec.suspend to false to start it again")
	}
	return n.condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend is true")
}
