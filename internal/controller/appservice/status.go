package appservice

import (
	"cmp"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// setStatus says in memory how the app fares.
func (r *Reconciler) setStatus(a *app) {
	a.setCounts()
	r.setHealth(a)
	stalled := a.Cause != nil && !r.isInGrace(a)
	for _, c := range []metav1.Condition{a.ready(), a.available(), a.progressing(stalled), a.degraded(stalled)} {
		condition.Set(&a.Status.Conditions, c, r.Clock)
	}
	r.Stalled(a.State, stalled)
	r.setBackedUp(a)
	failure := a.Crash
	if stalled {
		failure = a.Cause
	}
	a.Status.LastFailure = reconciler.Remember(a.Status.LastFailure, failure, r.Clock.Now())
}

func (a *app) setCounts() {
	a.Status.ObservedGeneration = a.Generation
	a.Status.Replicas, a.Status.ReadyReplicas = a.deployment.Status.Replicas, a.deployment.Status.ReadyReplicas
	a.Status.Selector = labels.FormatLabels(workload.Selector(a.AppService))
	a.Status.Nodes = nil
	for _, pod := range a.pods[:min(len(a.pods), maxNodes)] {
		a.Status.Nodes = append(a.Status.Nodes, pod.Name)
	}
}

// maxNodes is the limit of status.nodes: during a rollout there may be more pods than
// spec.size.
const maxNodes = 1000

// setHealth says what the checks came to.
func (r *Reconciler) setHealth(a *app) {
	cond := health.NoCheck()
	if a.Spec.HealthCheck != nil {
		pods, refreshed := r.checks.records(a)
		s := health.Summarize(&a.before.Status, pods, refreshed, r.Clock.Now())
		s.Write(&a.Status)
		r.checks.refreshed(a.name, s.Refreshed)
		a.turned, cond = s.Transitions, s.Condition
		r.chooseRestart(a, pods)
		if !s.Next.IsZero() {
			a.RequeueAfter(s.Next.Sub(r.Clock.Now()))
		}
	} else {
		none := health.Summary{}
		none.Write(&a.Status)
	}
	condition.Set(&a.Status.Conditions, a.Condition(v1alpha1.ConditionHealthy, cond.Status, cond.Reason, cond.Message), r.Clock)
}

// wanted is how many pods there are to be.
func (a *app) wanted() int32 {
	if a.Spec.Suspend {
		return 0
	}
	return a.Spec.Size
}

// isComplete tells whether all pods are there, ready, and what is asked for.
func (a *app) isComplete() bool {
	d := &a.deployment
	return d.UID != "" && !a.Stop && d.Status.ObservedGeneration == d.Generation &&
		d.Status.UpdatedReplicas == a.wanted() && d.Status.Replicas == a.wanted() && d.Status.AvailableReplicas == a.wanted()
}

func (a *app) howMany() string {
	return fmt.Sprintf("%d of %d pods are ready", a.Status.ReadyReplicas, a.wanted())
}

func (a *app) ready() metav1.Condition {
	status, reason, message := metav1.ConditionFalse, v1alpha1.ReasonPodsNotReady, a.howMany()
	switch {
	case !a.DeletionTimestamp.IsZero():
		reason, message = a.deletion()
	case a.Spec.Suspend:
		reason, message = v1alpha1.ReasonSuspended, "set spec.suspend to false to start the app"
	case a.Cause != nil:
		reason, message = a.Cause.Reason, a.Sentence()
	case a.isComplete():
		status, reason = metav1.ConditionTrue, v1alpha1.ReasonReady
	case a.Status.ReadyReplicas >= a.wanted():
		reason = v1alpha1.ReasonRollingOut
	}
	return a.Condition(v1alpha1.ConditionReady, status, reason, message)
}

// available follows the Deployment, which counts how many pods it may do without.
func (a *app) available() metav1.Condition {
	c := deploymentCondition(&a.deployment, appsv1.DeploymentAvailable)
	switch {
	case a.Spec.Suspend:
		return a.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "spec.suspend is true")
	case c != nil && c.Status == corev1.ConditionTrue && a.deployment.Status.ObservedGeneration == a.deployment.Generation:
		return a.Condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonReady, "enough pods are ready")
	case a.Cause != nil:
		return a.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, a.Cause.Reason, a.Sentence())
	}
	return a.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonPodsNotReady, a.howMany())
}

func (a *app) progressing(stalled bool) metav1.Condition {
	status, reason, message := metav1.ConditionTrue, v1alpha1.ReasonRollingOut, a.howMany()
	_, failed := a.FailedSince()
	switch {
	case a.isComplete() && a.Spec.Suspend:
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonSuspended, "the app is stopped"
	case a.isComplete():
		status, reason, message = metav1.ConditionFalse, v1alpha1.ReasonReady, "the app is what is asked for"
	case stalled:
		status, reason, message = metav1.ConditionFalse, a.Cause.Reason, "see condition Stalled"
	case failed:
		reason = v1alpha1.ReasonRecovering
	}
	return a.Condition(v1alpha1.ConditionProgressing, status, reason, message)
}

// degraded tells of an app that serves, but not as well as it should.
func (a *app) degraded(stalled bool) metav1.Condition {
	switch {
	case a.Status.Unhealthy > 0:
		return a.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonHealthCheckFailed, "see condition Healthy")
	case stalled:
		return a.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, a.Cause.Reason, "see condition Stalled")
	}
	return a.Condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonNotDegraded, "nothing is known to be wrong")
}

// deletion says what the deletion waits for.
func (a *app) deletion() (reason, message string) {
	release := fmt.Sprintf("; to delete the app without it, annotate it with %s=true", v1alpha1.AnnotationAbandonBackup)
	if b := a.Status.Backup; b != nil && b.Phase == v1alpha1.BackupFailed {
		return v1alpha1.ReasonBackupFailed, "the deletion waits for the backup, which failed: " + b.Message + release
	}
	return v1alpha1.ReasonBackupStarted, "the deletion waits for the backup" + release
}

func (r *Reconciler) setBackedUp(a *app) {
	b := a.Status.Backup
	if b == nil {
		return
	}
	c := a.Condition(v1alpha1.ConditionBackupSucceeded, metav1.ConditionFalse, "", cmp.Or(b.Message, "the backup runs"))
	switch b.Phase {
	case v1alpha1.BackupSucceeded:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded
	case v1alpha1.BackupFailed:
		c.Reason = v1alpha1.ReasonBackupFailed
	case v1alpha1.BackupAbandoned:
		c.Reason = v1alpha1.ReasonBackupAbandoned
	case v1alpha1.BackupSkipped:
		c.Reason = v1alpha1.ReasonBackupSkipped
	default:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonBackupStarted
	}
	condition.Set(&a.Status.Conditions, c, r.Clock)
}

// Times within which what is in the way is nothing out of the ordinary.
const (
	schedulingGrace = time.Minute      // an autoscaler may be adding a node
	probeGrace      = time.Minute      // the app is starting, or busy
	mountGrace      = 10 * time.Second // a kubelet's caches have not seen what is mounted
)

// isInGrace tells whether it is too early to call for help, and has the app looked at
// when it no longer is.
func (r *Reconciler) isInGrace(a *app) bool {
	var grace time.Duration
	switch a.Cause.Reason {
	case diagnosis.ReasonFailedScheduling, diagnosis.ReasonClaimPending:
		grace = schedulingGrace
	case diagnosis.ReasonUnhealthy:
		grace = probeGrace
	case diagnosis.ReasonFailedMount, diagnosis.ReasonFailedAttachVolume:
		grace = mountGrace
	}
	left := grace - r.Clock.Since(a.waitingSince())
	if left <= 0 {
		return false
	}
	a.RequeueAfter(left)
	return true
}

// waitingSince is when what is in the way could first be.
func (a *app) waitingSince() time.Time {
	for _, pod := range a.pods {
		if a.Cause.Object.Kind != "Pod" || pod.Name != a.Cause.Object.Name {
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

// maxMessage is the limit of messages in status.backup, in bytes.
const maxMessage = 1024

func cutMessage(s string) string { return plaintext.Cut(s, maxMessage) }
