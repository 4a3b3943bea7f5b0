package appservice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// report writes the status, if it changed, and says what there is to say.
func (r *Reconciler) report(ctx context.Context, a *app) (reconcile.Result, error) {
	// Before the status is written: afterwards, a retry could not tell what turned.
	for _, e := range a.news() {
		if err := r.Recorder.Emit(ctx, a.AppService, e); err != nil {
			return reconcile.Result{}, err
		}
	}
	runs := ""
	if a.isComplete() && !a.Spec.Suspend {
		runs = a.howMany()
	}
	if err := r.Report(ctx, a.State, a.before, runs); err != nil {
		return reconciler.RequeueOnConflict(err)
	}
	if a.commandJudged {
		r.backups.count(a.name)
	}
	if !a.DeletionTimestamp.IsZero() && isOver(a.Status.Backup) {
		r.metrics.backups.WithLabelValues(string(a.Status.Backup.Phase)).Inc()
		return reconciler.RequeueOnConflict(r.cleanUp(ctx, a))
	}
	if err := r.restart(ctx, a); err != nil {
		return reconciler.RequeueOnConflict(err)
	}
	return reconcile.Result{RequeueAfter: a.Next}, nil
}

// news are the Events of what turned since the status was written last.
func (a *app) news() []events.Event {
	var events []events.Event
	for _, n := range a.turned.Failed {
		events = append(events, checkFailed(&n))
	}
	for _, n := range a.turned.Unchecked {
		events = append(events, notChecked(&n))
	}
	for _, n := range a.turned.Recovered {
		events = append(events, checkRecovered(&n))
	}
	if a.Status.Backup != nil {
		events = append(events, a.backupNews()...)
	}
	return events
}

func checkFailed(n *v1alpha1.PodStatus) events.Event {
	return events.Event{
		Type: corev1.EventTypeWarning, Reason: n.Reason, Action: "Check",
		Note:     fmt.Sprintf("Pod %s is unhealthy: the check failed %d times in a row: %s", n.Name, n.ConsecutiveFailures, n.Message),
		Identity: n.PodUID, Since: n.LastTransitionTime.Time,
	}
}

func notChecked(n *v1alpha1.PodStatus) events.Event {
	e := events.Event{
		Type: corev1.EventTypeWarning, Reason: n.Reason, Action: "Check",
		Note:     fmt.Sprintf("Pod %s cannot be checked: %s", n.Name, n.Message),
		Identity: n.PodUID, Since: n.LastTransitionTime.Time,
	}
	if n.Reason == v1alpha1.ReasonExecForbidden {
		e.Identity = n.Reason // of the app: pods that turn in the same second are one Event
	}
	return e
}

func checkRecovered(n *v1alpha1.PodStatus) events.Event {
	return events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonHealthCheckRecovered, Action: "Check",
		Note:     fmt.Sprintf("Pod %s is healthy again", n.Name),
		Identity: n.PodUID, Since: n.LastTransitionTime.Time,
	}
}

// backupNews are the Events of what became of the backup since the status was written
// last.
func (a *app) backupNews() []events.Event {
	var events []events.Event
	b, was := a.Status.Backup, a.before.Status.Backup
	if was == nil && b.Phase == v1alpha1.BackupRunning {
		events = append(events, a.backupEvent(corev1.EventTypeNormal, v1alpha1.ReasonBackupStarted, "nothing is removed until the backup has ended"))
	}
	if was != nil && was.Phase == b.Phase && was.Attempts == b.Attempts {
		return events
	}
	switch b.Phase {
	case v1alpha1.BackupSucceeded:
		events = append(events, a.backupEvent(corev1.EventTypeNormal, v1alpha1.ReasonBackupSucceeded, b.Message))
	case v1alpha1.BackupFailed:
		_, message := a.deletion()
		events = append(events, a.backupEvent(corev1.EventTypeWarning, v1alpha1.ReasonBackupFailed, message))
	case v1alpha1.BackupAbandoned:
		events = append(events, a.backupEvent(corev1.EventTypeWarning, v1alpha1.ReasonBackupAbandoned, "the deletion goes on without a backup: "+b.Message))
	case v1alpha1.BackupSkipped:
		events = append(events, a.backupEvent(corev1.EventTypeNormal, v1alpha1.ReasonBackupSkipped, b.Message))
	case v1alpha1.BackupRunning: // that it began is told already
	}
	return events
}

// backupEvent tells of the backup since the deletion, which a takeover does not change.
func (a *app) backupEvent(kind, reason, note string) events.Event {
	return events.Event{Type: kind, Reason: reason, Action: "BackUp", Note: note, Since: a.DeletionTimestamp.Time}
}

func cleanupComplete(a *app) events.Event {
	note := "the Deployment and the Service are removed"
	if a.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		note = "the Deployment and the Service are kept, as spec.deletionPolicy says"
	}
	return events.Event{
		Type: corev1.EventTypeNormal, Reason: v1alpha1.ReasonCleanupComplete, Action: "Delete", Note: note, Since: a.DeletionTimestamp.Time,
	}
}
