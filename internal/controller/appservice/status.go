package appservice

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/status"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/step"
)

// setStatus sets the status in memory, and decides what is reported. It returns when to
// reconcile again if nothing changes.
func (r *Reconciler) setStatus(a *app) time.Duration {
	a.setCounts()
	turned, next := r.setHealth(a)
	r.setEvictionBlocked(a)
	grace := r.graceLeft(a)
	stalled := a.findings.Cause != nil && grace == 0
	var unstable time.Duration
	if a.isComplete() && !a.service.Spec.Suspend && !a.deleting() {
		a.recovering, unstable = a.findings.Recovering(r.Clock.Now(), a.current(a.pods)...)
	}
	for _, c := range []metav1.Condition{
		a.available(), a.progressing(stalled), a.degraded(stalled), a.findings.Stalled(stalled),
	} {
		r.Writer.SetCondition(a.service, c)
	}
	r.setReady(a, stalled)
	r.setBackedUp(a)
	a.service.Status.LastFailure = a.findings.Remember(a.service.Status.LastFailure, stalled, r.Clock.Now())
	report, wait := a.findings.Report(a.before, a.service.Status.LastFailure, stalled, a.howMany(), r.Clock.Now())
	a.report = report
	changes, lasting := healthEvents(turned)
	a.report.Changes, a.report.Lasting = append(a.report.Changes, changes...), lasting
	return step.Sooner(next, grace, unstable, wait, a.findings.WaitLeft(r.Clock.Now()))
}

// maxNodes is the limit of status.nodes: during a rollout there may be more pods than
// spec.size.
const maxNodes = 1000

func (a *app) setCounts() {
	s, d := &a.service.Status, &a.deployment.Status
	s.Replicas, s.ReadyReplicas = d.Replicas, d.ReadyReplicas
	s.UpdatedReplicas, s.AvailableReplicas = d.UpdatedReplicas, d.AvailableReplicas
	s.Selector = labels.FormatLabels(workload.Selector(a.service))
	s.Nodes = nil
	for _, pod := range a.pods[:min(len(a.pods), maxNodes)] {
		s.Nodes = append(s.Nodes, pod.Name)
	}
}

// setHealth sets the results of the health checks. It returns the pods whose health
// changed, and when to reconcile again.
func (r *Reconciler) setHealth(a *app) (health.Transitions, time.Duration) {
	var s health.Summary
	var next time.Duration
	c := health.NoCheck()
	switch {
	case a.disabled.healthCheck != "":
		c.Reason, c.Message = v1alpha1.ReasonFeatureDisabled, a.disabled.healthCheck
	case a.service.Spec.HealthCheck != nil:
		s = health.Summarize(&a.before.Status, a.checked, a.refreshed, r.Clock.Now())
		r.checks.setRefreshed(a.name, s.Refreshed)
		c = s.Condition
		next = r.until(s.Next)
	}
	s.Write(&a.service.Status)
	r.Writer.SetCondition(a.service, condition(v1alpha1.ConditionHealthy, c.Status, c.Reason, c.Message))
	return s.Transitions, next
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// wanted is the number of pods that the app asks for.
func (a *app) wanted() int32 {
	if a.service.Spec.Suspend {
		return 0
	}
	return a.service.Spec.Size
}

// isComplete reports whether all pods exist, are available, and have the current
// template.
func (a *app) isComplete() bool {
	d := &a.deployment
	return d.UID != "" && !a.blocked && d.Status.ObservedGeneration == d.Generation &&
		d.Status.UpdatedReplicas == a.wanted() && d.Status.Replicas == a.wanted() && d.Status.AvailableReplicas == a.wanted()
}

// isStopped reports whether the app is suspended and has no pods.
func (a *app) isStopped() bool {
	return a.service.Spec.Suspend && a.deployment.Status.Replicas == 0 && len(a.pods) == 0 && len(a.ending) == 0
}

func (a *app) howMany() string {
	s := &a.service.Status
	if a.service.Spec.MinReadySeconds > 0 && s.AvailableReplicas < s.ReadyReplicas {
		return fmt.Sprintf("%d of %d pods are ready, %d of them for %d s", s.ReadyReplicas, a.wanted(), s.AvailableReplicas, a.service.Spec.MinReadySeconds)
	}
	return fmt.Sprintf("%d of %d pods are ready", s.ReadyReplicas, a.wanted())
}

// setReady sets Ready and the state. A suspended app has no condition Ready.
func (r *Reconciler) setReady(a *app, stalled bool) {
	state, ready := a.summarize(stalled)
	if ready.Type == "" {
		meta.RemoveStatusCondition(&a.service.Status.Conditions, v1alpha1.ConditionReady)
		reason := ""
		if stalled {
			reason = a.findings.Cause.Reason
		}
		r.Writer.SetState(a.service, state, reason, stalled)
		return
	}
	r.Writer.SetCondition(a.service, ready)
	reason := ready.Reason
	switch {
	case state != v1alpha1.StateReady:
	case a.service.Status.Unhealthy > 0:
		state, reason = v1alpha1.StateDegraded, v1alpha1.ReasonHealthCheckFailed
	case a.disabled.message() != "":
		state, reason = v1alpha1.StateDegraded, a.disabled.reason()
	}
	if a.recovering != nil {
		state, reason = v1alpha1.StateDegraded, a.recovering.Reason
	}
	r.Writer.SetState(a.service, state, reason, stalled || a.recovering != nil)
}

// summarize returns the state and the condition Ready, which is empty if the app is
// suspended.
func (a *app) summarize(stalled bool) (v1alpha1.State, metav1.Condition) {
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPodsNotReady, a.howMany())
	state := v1alpha1.StateStarting
	if a.isAvailable() {
		state = v1alpha1.StateUpdating
	}
	switch cause := a.findings.Cause; {
	case a.deleting():
		state = v1alpha1.StateDeleting
		ready.Reason, ready.Message = a.deletion()
	case a.isStopped():
		return v1alpha1.StateSuspended, metav1.Condition{}
	case a.service.Spec.Suspend:
		return v1alpha1.StateStopping, metav1.Condition{}
	case cause != nil:
		ready.Reason, ready.Message = cause.Reason, a.findings.Lines()
		if stalled && a.isAvailable() {
			state = v1alpha1.StateDegraded
		} else if stalled {
			state = v1alpha1.StateFailing
		}
	case a.isComplete():
		state = v1alpha1.StateReady
		ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.ReasonReady
	case a.service.Status.ReadyReplicas >= a.wanted():
		ready.Reason = v1alpha1.ReasonRollingOut
	}
	return state, ready
}

// isAvailable is the Deployment's opinion: enough pods are ready. If all of them may be unavailable
// during a rollout, the Deployment finds that none is enough.
func (a *app) isAvailable() bool {
	c, d := deploymentCondition(&a.deployment, appsv1.DeploymentAvailable), &a.deployment.Status
	return c != nil && c.Status == corev1.ConditionTrue && d.ObservedGeneration == a.deployment.Generation && (d.AvailableReplicas > 0 || a.wanted() == 0)
}

func (a *app) available() metav1.Condition {
	available := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionAvailable, status, reason, message)
	}
	switch cause := a.findings.Cause; {
	case a.service.Spec.Suspend:
		return available(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "spec.suspend is true")
	case a.isAvailable():
		return available(metav1.ConditionTrue, v1alpha1.ReasonReady, "enough pods are ready")
	case cause != nil:
		return available(metav1.ConditionFalse, cause.Reason, a.findings.Lines())
	}
	return available(metav1.ConditionFalse, v1alpha1.ReasonPodsNotReady, a.howMany())
}

func (a *app) progressing(stalled bool) metav1.Condition {
	progress := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionProgressing, status, reason, message)
	}
	switch {
	case a.isStopped():
		return progress(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "the app is stopped")
	case a.isComplete() && !a.service.Spec.Suspend:
		return progress(metav1.ConditionFalse, v1alpha1.ReasonReady, "the app is up to date")
	case stalled:
		return progress(metav1.ConditionFalse, a.findings.Cause.Reason, "see condition Stalled")
	case !status.FailingSince(a.before).IsZero():
		return progress(metav1.ConditionTrue, v1alpha1.ReasonRecovering, a.howMany())
	}
	return progress(metav1.ConditionTrue, v1alpha1.ReasonRollingOut, a.howMany())
}

// degraded is True for an app that works, but not as it should.
func (a *app) degraded(stalled bool) metav1.Condition {
	switch {
	case a.service.Status.Unhealthy > 0:
		return condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonHealthCheckFailed, "see condition Healthy")
	case stalled:
		return condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, a.findings.Cause.Reason, "see condition Stalled")
	}
	if a.recovering != nil {
		return condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, a.recovering.Reason,
			"the pods are ready, but have not run for long enough since a crash: "+a.recovering.Sentence())
	}
	if message := a.disabled.message(); message != "" {
		return condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, a.disabled.reason(), message)
	}
	return condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonNotDegraded, "no problem is known")
}

const (
	// schedulingGrace is how long an autoscaler may need to add a node.
	schedulingGrace = time.Minute
	// probeGrace is how long a starting or busy app may fail its probe or its readiness gates.
	probeGrace = time.Minute
	// initGrace is how long init containers may run. It is the default progress deadline of
	// a Deployment.
	initGrace = 10 * time.Minute
)

// graceLeft returns how long the cause may still be a normal part of a start.
func (r *Reconciler) graceLeft(a *app) time.Duration {
	if left := a.findings.FormerGraceLeft(r.Clock.Now()); left > 0 || a.findings.Cause == nil {
		return left
	}
	grace := graceFor(a.findings.Cause.Reason)
	if a.findings.IsSetUp() {
		grace = reconciler.SetUpGrace
	}
	return max(a.findings.StartLeft(r.Clock.Now()), grace-r.Clock.Since(a.waitingSince()))
}

// graceFor is how long a cause is a normal part of a start.
func graceFor(reason string) time.Duration {
	switch reason {
	case diagnosis.ReasonFailedScheduling, diagnosis.ReasonClaimPending:
		return schedulingGrace
	case diagnosis.ReasonUnhealthy, diagnosis.ReasonReadinessGatesNotReady:
		return probeGrace
	case diagnosis.ReasonPodInitializing:
		return initGrace
	}
	return 0
}

// waitingSince is the earliest time at which the cause could have occurred.
func (a *app) waitingSince() time.Time {
	object := a.findings.Cause.Object
	for _, pod := range a.pods {
		isPod := object == diagnosis.Object{Kind: "Pod", Name: pod.Name}
		mounted := object.Kind == "PersistentVolumeClaim" && slices.Contains(diagnosis.ClaimsOf(pod), object.Name)
		if !isPod && !mounted {
			continue
		}
		since := pod.CreationTimestamp.Time
		if c := kube.PodCondition(pod, corev1.PodReady); c != nil && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
		return since
	}
	return time.Time{}
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// healthEvents are the Events about pods whose health changed. Lasting ones have the time of an
// entry in the new status. The others have that of the former one, or no entry: the pod that
// stands for all forbidden ones can change.
func healthEvents(turned health.Transitions) (changes, lasting []events.Event) {
	about := func(n *v1alpha1.PodStatus, kind, reason, note string) events.Event {
		return events.Event{
			Type: kind, Reason: reason, Action: "Check", Note: note, Identity: n.PodUID, Since: n.LastTransitionTime.Time,
		}
	}
	for _, n := range turned.Failed {
		lasting = append(lasting, about(&n, corev1.EventTypeWarning, n.Reason,
			fmt.Sprintf("Pod %s is unhealthy: the check failed %d times in a row: %s", n.Name, n.ConsecutiveFailures, n.Message)))
	}
	for _, n := range turned.Unchecked {
		e := about(&n, corev1.EventTypeWarning, n.Reason, fmt.Sprintf("Pod %s cannot be checked: %s", n.Name, n.Message))
		if n.Reason == v1alpha1.ReasonExecForbidden {
			e.Identity = n.Reason // one Event for all pods of the app
			changes = append(changes, e)
			continue
		}
		lasting = append(lasting, e)
	}
	for _, n := range turned.Recovered {
		changes = append(changes, about(&n, corev1.EventTypeNormal, v1alpha1.ReasonHealthCheckRecovered, fmt.Sprintf("Pod %s is healthy again", n.Name)))
	}
	return changes, lasting
}
