package appservice

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// abandonAfter is how often a command is run before its backup is abandoned.
const abandonAfter = 3

// isOver tells whether nothing more is to be done for a backup.
func isOver(b *v1alpha1.BackupStatus) bool {
	return b != nil && (b.Phase == v1alpha1.BackupSucceeded || b.Phase == v1alpha1.BackupAbandoned || b.Phase == v1alpha1.BackupSkipped)
}

// backUp brings the backup of an app that is being deleted a step further.
func (r *Reconciler) backUp(ctx context.Context, a *app) error {
	if a.DeletionTimestamp.IsZero() {
		a.Status.Backup = nil
		return nil
	}
	going, err := r.isNamespaceGoing(ctx, a)
	switch {
	case err != nil:
		return err
	case isOver(a.Status.Backup):
		return nil
	case a.Spec.Backup == nil:
		r.endBackup(a, v1alpha1.BackupSkipped, "there is no spec.backup")
	case going:
		logr.FromContextOrDiscard(ctx).Info("backup skipped: the namespace is being deleted")
		r.endBackup(a, v1alpha1.BackupSkipped, "the namespace is being deleted")
	case a.Annotations[v1alpha1.AnnotationAbandonBackup] == "true":
		r.endBackup(a, v1alpha1.BackupAbandoned, "annotation "+v1alpha1.AnnotationAbandonBackup+" says so")
	case a.Spec.Backup.JobTemplate != nil:
		return r.backUpByJob(ctx, a)
	default:
		r.backUpByCommand(a)
	}
	return nil
}

// backupStatus is how far the backup is; it begins now if it has not.
func (r *Reconciler) backupStatus(a *app) *v1alpha1.BackupStatus {
	if a.Status.Backup == nil {
		a.Status.Backup = &v1alpha1.BackupStatus{StartTime: new(r.now())}
	}
	return a.Status.Backup
}

func (r *Reconciler) now() metav1.Time { return metav1.NewTime(r.Clock.Now().Truncate(time.Second)) }

func (r *Reconciler) startBackup(a *app) {
	b := r.backupStatus(a)
	b.Phase, b.Message = v1alpha1.BackupRunning, ""
}

// failBackup notes a failure, which abandons the backup once it is the last that
// matters.
func (r *Reconciler) failBackup(a *app, message string, last bool) {
	if last && a.Spec.Backup.OnFailure == v1alpha1.BackupAbandon {
		r.endBackup(a, v1alpha1.BackupAbandoned, message)
		return
	}
	b := r.backupStatus(a)
	b.Phase, b.Message = v1alpha1.BackupFailed, cutMessage(message)
}

func (r *Reconciler) endBackup(a *app, phase v1alpha1.BackupPhase, message string) {
	b := r.backupStatus(a)
	b.Phase, b.Message, b.CompletionTime = phase, cutMessage(message), new(r.now())
}

// backUpByCommand has the command run in a pod: at least once, for it is run again if
// the operator ends meanwhile.
func (r *Reconciler) backUpByCommand(a *app) {
	b := r.backupStatus(a)
	limit := time.Duration(a.Spec.Backup.DeadlineSeconds) * time.Second
	run, known := r.backups.look(a.name, a.UID)
	switch {
	case known && run.ended.IsZero():
		r.startBackup(a)
		return
	case known && !run.counted:
		r.judgeCommand(a, run)
		return
	}
	if wait := run.retryAt(b.Attempts).Sub(r.Clock.Now()); known && wait > 0 {
		a.RequeueAfter(wait)
		return
	}
	pod := a.podToBackUp()
	if pod == nil {
		r.awaitPod(a, limit)
		return
	}
	r.startBackup(a)
	r.backups.begin(a.name, a.UID, targetIn(pod, a.Spec.Backup.Exec), a.Spec.Backup.Exec.Command, limit)
}

// judgeCommand says what a run came to. The run counts once the status says so, or a
// status that could not be written would have it run again, though it succeeded.
func (r *Reconciler) judgeCommand(a *app, run commandRun) {
	b := a.Status.Backup
	a.commandJudged = true
	b.Attempts++
	if run.err == nil {
		r.endBackup(a, v1alpha1.BackupSucceeded, run.message)
		return
	}
	r.failBackup(a, run.message, b.Attempts >= abandonAfter)
	a.RequeueAfter(run.retryAt(b.Attempts).Sub(r.Clock.Now()))
}

// awaitPod waits for a pod to run the command in, for as long as a run may take.
func (r *Reconciler) awaitPod(a *app, limit time.Duration) {
	left := limit - r.Clock.Since(a.DeletionTimestamp.Time)
	if left > 0 {
		r.startBackup(a)
		a.Status.Backup.Message = "there is no pod yet to run the command in"
		a.RequeueAfter(left)
		return
	}
	r.failBackup(a, fmt.Sprintf("for %v there was no pod to run the command in", limit), true)
}
