package appservice

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
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
	grace := r.graceLeft(a)
	stalled := a.findings.Cause != nil && grace == 0
	for _, c := range []metav1.Condition{
		a.available(), a.progressing(stalled), a.degraded(stalled), a.findings.Stalled(stalled),
	} {
		r.Writer.SetCondition(a.service, c)
	}
	r.setReady(a, stalled)
	r.setBackedUp(a)
	a.service.Status.LastFailure = a.findings.Remember(a.service.Status.LastFailure, stalled, r.Clock.Now())
	a.report = a.findings.Report(stalled, a.howMany())
	a.report.Changes = append(a.report.Changes, healthEvents(turned)...)
	return step.Sooner(next, grace)
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
	if a.service.Spec.HealthCheck != nil {
		pods, refreshed := r.checks.records(a)
		s = health.Summarize(&a.before.Status, pods, refreshed, r.Clock.Now())
		r.checks.setRefreshed(a.name, s.Refreshed)
		c = s.Condition
		next = step.Sooner(r.chooseRestart(a, pods), r.until(s.Next))
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
	return a.service.Spec.Suspend && a.deployment.Status.Replicas == 0 && len(a.pods) == 0
}

func (a *app) howMany() string {
	return fmt.Sprintf("%d of %d pods are ready", a.service.Status.ReadyReplicas, a.wanted())
}

// setReady sets Ready and the state. A suspended app has no condition Ready.
func (r *Reconciler) setReady(a *app, stalled bool) {
	state, ready := a.summarize(stalled)
	if ready.Type == "" {
		meta.RemoveStatusCondition(&a.service.Status.Conditions, v1alpha1.ConditionReady)
		r.Writer.SetState(a.service, state, "", stalled)
		return
	}
	r.Writer.SetCondition(a.service, ready)
	reason := ready.Reason
	if state == v1alpha1.StateReady && a.service.Status.Unhealthy > 0 {
		state, reason = v1alpha1.StateDegraded, v1alpha1.ReasonHealthCheckFailed
	}
	r.Writer.SetState(a.service, state, reason, stalled)
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
		ready.Reason, ready.Message = cause.Reason, a.findings.Sentence()
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

// isAvailable is the Deployment's opinion: enough pods are ready.
func (a *app) isAvailable() bool {
	c := deploymentCondition(&a.deployment, appsv1.DeploymentAvailable)
	return c != nil && c.Status == corev1.ConditionTrue && a.deployment.Status.ObservedGeneration == a.deployment.Generation
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
		return available(metav1.ConditionFalse, cause.Reason, a.findings.Sentence())
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
	return condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonNotDegraded, "no problem is known")
}

const (
	// schedulingGrace is how long an autoscaler may need to add a node.
	schedulingGrace = time.Minute
	// probeGrace is how long a starting or busy app may fail its probe.
	probeGrace = time.Minute
	// mountGrace is how long a kubelet's caches may lack what a pod mounts.
	mountGrace = 10 * time.Second
)

// graceLeft returns how long the cause may still be a normal part of a start.
func (r *Reconciler) graceLeft(a *app) time.Duration {
	if a.findings.Cause == nil {
		return 0
	}
	var grace time.Duration
	switch a.findings.Cause.Reason {
	case diagnosis.ReasonFailedScheduling, diagnosis.ReasonClaimPending:
		grace = schedulingGrace
	case diagnosis.ReasonUnhealthy:
		grace = probeGrace
	case diagnosis.ReasonFailedMount, diagnosis.ReasonFailedAttachVolume:
		grace = mountGrace
	}
	return max(0, grace-r.Clock.Since(a.waitingSince()))
}

// waitingSince is the earliest time at which the cause could have occurred.
func (a *app) waitingSince() time.Time {
	object := a.findings.Cause.Object
	for _, pod := range a.pods {
		if object.Kind != "Pod" || pod.Name != object.Name {
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

// healthEvents are the Events about pods whose health changed.
func healthEvents(turned health.Transitions) []events.Event {
	var all []events.Event
	add := func(n *v1alpha1.PodStatus, kind, reason, note string) {
		identity := n.PodUID
		if reason == v1alpha1.ReasonExecForbidden {
			identity = reason // one Event for all pods of the app
		}
		all = append(all, events.Event{
			Type: kind, Reason: reason, Action: "Check", Note: note, Identity: identity, Since: n.LastTransitionTime.Time,
		})
	}
	for _, n := range turned.Failed {
		add(&n, corev1.EventTypeWarning, n.Reason,
			fmt.Sprintf("Pod %s is unhealthy: the check failed %d times in a row: %s", n.Name, n.ConsecutiveFailures, n.Message))
	}
	for _, n := range turned.Unchecked {
		add(&n, corev1.EventTypeWarning, n.Reason, fmt.Sprintf("Pod %s cannot be checked: %s", n.Name, n.Message))
	}
	for _, n := range turned.Recovered {
		add(&n, corev1.EventTypeNormal, v1alpha1.ReasonHealthCheckRecovered, fmt.Sprintf("Pod %s is healthy again", n.Name))
	}
	return all
}
