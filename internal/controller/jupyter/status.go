package jupyter

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// observed is what one reconcile sees of a notebook. Each fact is found out once. The conditions
// and the state are functions of it. Diagnosis and culling read it too, so that all agree.
type observed struct {
	// suspend is spec.suspend. culled is why culling has set it; empty if it has not.
	suspend bool
	culled  string
	// failed: the status so far contains a failure.
	failed bool
	url    string
	// culling is spec.culling; nil if it is not set.
	culling *culling.Settings
	// blocked: a child that later ones need is missing.
	blocked bool
	// claim is empty if there is none. claimName is empty if none is requested.
	claim     corev1.PersistentVolumeClaim
	claimName string

	// pod is nil if there is none.
	pod   *corev1.Pod
	ready bool
	// running is when the server was started; zero if it does not run, or must stop.
	running time.Time
	// ended is a former pod that was ended, and that the status does not contain yet.
	ended *corev1.Pod
	// updatePending is the condition about an older template of the pod.
	updatePending metav1.Condition

	findings reconciler.Findings
	// stalled: the cause is no longer a normal part of a start.
	stalled bool
	// crash is one from which a ready pod has not recovered yet; nil if there is none.
	crash *diagnosis.Cause
}

// setStatus sets the status in memory, and decides what is reported. It returns when to
// reconcile again if nothing changes.
func (r *Reconciler) setStatus(n *notebook) time.Duration {
	s, o := &n.jupyter.Status, &n.observed
	s.URL = o.url
	s.PodName, s.NodeName, s.ReadyReplicas = "", "", 0
	if o.pod != nil {
		s.PodName, s.NodeName = o.pod.Name, o.pod.Spec.NodeName
	}
	if o.ready {
		s.ReadyReplicas = 1
	}
	s.StartTime = r.startTime(n)
	r.setConditions(n)
	state, reason := stateOf(o)
	r.Writer.SetState(n.jupyter, state, reason, o.stalled || o.crash != nil)
	again := step.Sooner(r.setUse(n), r.setFailing(n))
	s.LastFailure = o.findings.Remember(s.LastFailure, o.stalled, r.Clock.Now())
	report, wait := o.findings.Report(n.before, s.LastFailure, o.stalled, servesAt(o), r.Clock.Now())
	n.report = report
	return step.Sooner(again, wait)
}

// startTime is nil if the notebook is not starting.
func (r *Reconciler) startTime(n *notebook) *metav1.Time {
	if n.suspend || n.stalled || n.ready {
		return nil
	}
	if start := n.before.Status.StartTime; start != nil {
		return start
	}
	return inSeconds(r.Clock.Now())
}

// setConditions sets what is observed. A suspended notebook has no condition Ready. If the notebook
// never was suspended, the condition Suspended dates from its creation, not from its first reconcile:
// earlier Events belong to the first run.
func (r *Reconciler) setConditions(n *notebook) {
	o, conditions := &n.observed, &n.jupyter.Status.Conditions
	for _, c := range []metav1.Condition{
		o.findings.Stalled(o.stalled), progressing(o), scheduled(o.pod), storage(o), access(o), o.updatePending, suspended(o), ready(o),
	} {
		r.Writer.SetCondition(n.jupyter, c)
	}
	if n.suspend {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionReady)
	} else if meta.FindStatusCondition(n.before.Status.Conditions, v1alpha1.ConditionSuspended) == nil {
		meta.FindStatusCondition(*conditions, v1alpha1.ConditionSuspended).LastTransitionTime = n.jupyter.CreationTimestamp
	}
}

// ofType returns a function that makes conditions of a type.
func ofType(kind string) func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
}

// stateOf returns the state and its reason.
func stateOf(o *observed) (v1alpha1.State, string) {
	cause := o.findings.Cause
	switch {
	case o.suspend && o.stalled:
		return v1alpha1.StateStopping, cause.Reason
	case o.suspend && o.pod != nil:
		return v1alpha1.StateStopping, suspended(o).Reason
	case o.culled != "":
		return v1alpha1.StateCulled, o.culled
	case o.suspend:
		return v1alpha1.StateSuspended, ""
	case o.ready && o.stalled:
		return v1alpha1.StateDegraded, cause.Reason
	case o.ready && o.crash != nil:
		return v1alpha1.StateDegraded, o.crash.Reason
	case o.ready && o.updatePending.Reason == v1alpha1.ReasonRestartNeeded:
		return v1alpha1.StateReady, v1alpha1.ReasonRestartNeeded
	case o.ready:
		return v1alpha1.StateReady, ""
	case o.stalled:
		return v1alpha1.StateFailing, cause.Reason
	case cause != nil:
		return v1alpha1.StateStarting, cause.Reason
	}
	return v1alpha1.StateStarting, ""
}

func servesAt(o *observed) string { return "the notebook serves at " + o.url }

func ready(o *observed) metav1.Condition {
	ready := ofType(v1alpha1.ConditionReady)
	switch {
	case o.ready:
		return ready(metav1.ConditionTrue, v1alpha1.ReasonReady, servesAt(o))
	case o.findings.Cause != nil:
		return ready(metav1.ConditionFalse, o.findings.Cause.Reason, o.findings.Lines())
	}
	return ready(metav1.ConditionFalse, v1alpha1.ReasonStarting, "the notebook is starting")
}

func progressing(o *observed) metav1.Condition {
	progress := ofType(v1alpha1.ConditionProgressing)
	switch {
	case o.stalled:
		return progress(metav1.ConditionFalse, o.findings.Cause.Reason, "see condition Stalled")
	case o.suspend && o.pod != nil:
		return progress(metav1.ConditionTrue, v1alpha1.ReasonStopping, "the notebook is stopping")
	case o.suspend:
		return progress(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "the notebook is stopped")
	case o.ready:
		return progress(metav1.ConditionFalse, v1alpha1.ReasonReady, "the notebook is up to date")
	case o.failed:
		return progress(metav1.ConditionTrue, v1alpha1.ReasonRecovering, "the failure is no longer seen; the notebook is starting")
	}
	return progress(metav1.ConditionTrue, v1alpha1.ReasonStarting, "the notebook is starting")
}

func scheduled(pod *corev1.Pod) metav1.Condition {
	scheduled := ofType(v1alpha1.ConditionPodScheduled)
	if pod == nil {
		return scheduled(metav1.ConditionUnknown, v1alpha1.ReasonNoPod, "there is no pod")
	}
	c := kube.PodCondition(pod, corev1.PodScheduled)
	switch {
	case pod.Spec.NodeName != "":
		return scheduled(metav1.ConditionTrue, v1alpha1.ReasonScheduled, "on node "+pod.Spec.NodeName)
	case c != nil && c.Status == corev1.ConditionFalse:
		return scheduled(metav1.ConditionFalse, cmp.Or(c.Reason, corev1.PodReasonUnschedulable), c.Message)
	}
	return scheduled(metav1.ConditionUnknown, v1alpha1.ReasonStarting, "the scheduler has not handled the pod yet")
}

func storage(o *observed) metav1.Condition {
	storage := ofType(v1alpha1.ConditionStorageReady)
	if o.claimName == "" {
		return storage(metav1.ConditionTrue, v1alpha1.ReasonNotRequested, "no storage is requested")
	}
	if c := o.findings.CauseAt("PersistentVolumeClaim", o.claimName); c != nil {
		return storage(metav1.ConditionFalse, c.Reason, c.Lines())
	}
	claim, resizing := "claim "+o.claimName, diagnosis.Resizing(&o.claim)
	switch {
	case resizing != "":
		return storage(metav1.ConditionTrue, v1alpha1.ReasonBound, claim+" is bound, and is "+resizing)
	case o.claim.UID == "" && !o.ready && (o.blocked || o.suspend):
		return storage(metav1.ConditionUnknown, v1alpha1.ReasonNoPod, claim+" was not checked")
	case o.claim.Status.Phase == corev1.ClaimLost:
		return storage(metav1.ConditionFalse, diagnosis.ReasonClaimLost, "the volume of "+claim+" is gone")
	case o.claim.Status.Phase == corev1.ClaimBound, o.ready: // a ready pod has mounted the claim
		return storage(metav1.ConditionTrue, v1alpha1.ReasonBound, claim+" is bound")
	}
	return storage(metav1.ConditionFalse, diagnosis.ReasonClaimPending, claim+" waits for a volume")
}

func access(o *observed) metav1.Condition {
	access := ofType(v1alpha1.ConditionAccessReady)
	for _, kind := range []string{"Service", "Ingress"} {
		if c := o.findings.CauseAt(kind, o.findings.Owner.GetName()); c != nil {
			return access(metav1.ConditionFalse, c.Reason, c.Lines())
		}
	}
	if o.blocked {
		return access(metav1.ConditionUnknown, v1alpha1.ReasonStarting, "another cause blocks the start")
	}
	return access(metav1.ConditionTrue, v1alpha1.ReasonReady, "reached at "+o.url)
}

func suspended(o *observed) metav1.Condition {
	suspended := ofType(v1alpha1.ConditionSuspended)
	switch {
	case !o.suspend:
		return suspended(metav1.ConditionFalse, v1alpha1.ReasonNotSuspended, "spec.suspend is false")
	case o.culled == v1alpha1.ReasonCulledFailing:
		return suspended(metav1.ConditionTrue, o.culled,
			"the notebook failed for too long: correct the cause in status.lastFailure, then set spec.suspend to false to start it again")
	case o.culled != "":
		return suspended(metav1.ConditionTrue, o.culled, "the notebook was unused: set spec.suspend to false to start it again")
	}
	return suspended(metav1.ConditionTrue, v1alpha1.ReasonSuspended, "set spec.suspend to false to start the notebook")
}
