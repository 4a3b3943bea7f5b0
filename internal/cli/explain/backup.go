package explain

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// heldForBackup says what the deletion of an AppService waits for, and why that does
// not come about.
func (q *inquiry) heldForBackup(a *v1alpha1.AppService) {
	if !slices.Contains(a.Finalizers, v1alpha1.FinalizerBackup) {
		return
	}
	b := a.Status.Backup.DeepCopy()
	if b != nil {
		b.Message = plaintext.Line(b.Message)
	}
	d := &Deletion{WaitsFor: waitsFor(a), Backup: b}
	q.explanation.Deletion = d
	if !isPending(a) {
		return
	}
	q.held = true
	d.Release = fmt.Sprintf("kubectl annotate appservices.%s %s -n %s %s=true", v1alpha1.Group, a.Name, a.Namespace, v1alpha1.AnnotationAbandonBackup)
	q.explanation.Summary = "it is being deleted, which waits for its backup"
	q.readBackup(a)
	if b != nil && b.Phase == v1alpha1.BackupFailed && (q.fallback == nil || q.fallback.Reason == diagnosis.ReasonProgressDeadlineExceeded) {
		q.fallback = backupFailed(a)
	}
}

// isPending tells whether the deletion needs a backup that is still to be made.
func isPending(a *v1alpha1.AppService) bool {
	if a.Spec.Backup == nil || a.Annotations[v1alpha1.AnnotationAbandonBackup] == "true" {
		return false
	}
	over := []v1alpha1.BackupPhase{v1alpha1.BackupSucceeded, v1alpha1.BackupAbandoned, v1alpha1.BackupSkipped}
	return !slices.Contains(over, phaseOf(a))
}

func phaseOf(a *v1alpha1.AppService) v1alpha1.BackupPhase {
	if a.Status.Backup == nil {
		return ""
	}
	return a.Status.Backup.Phase
}

func waitsFor(a *v1alpha1.AppService) string {
	switch {
	case a.Annotations[v1alpha1.AnnotationAbandonBackup] == "true" && phaseOf(a) != v1alpha1.BackupSucceeded:
		return "the operator, which is told to do without the backup; is it running?"
	case !isPending(a):
		return "the operator, which has no backup to make any more; is it running?"
	}
	how := "by Job " + workload.BackupJobName(a)
	if a.Spec.Backup.Exec != nil {
		how = "by a command in container " + a.Spec.Backup.Exec.Container
	}
	switch phaseOf(a) {
	case v1alpha1.BackupRunning:
		return "the backup " + how + ", which is on its way"
	case v1alpha1.BackupFailed:
		return "the backup " + how + ", which failed"
	default:
		return "the backup " + how + ", which the operator has not begun; is it running?"
	}
}

// readBackup reads what makes the backup. For a command that is any pod of the app:
// where one is ready, what is wrong with others is not in the way.
func (q *inquiry) readBackup(a *v1alpha1.AppService) {
	if a.Spec.Backup.JobTemplate != nil {
		q.readBackupJob(a)
		return
	}
	q.readApp(a)
	if slices.ContainsFunc(q.workload.Pods, podIsReady) {
		q.workload, q.controllers, q.missing, q.fallback = diagnosis.Workload{}, nil, false, nil
	}
}

func (q *inquiry) readBackupJob(a *v1alpha1.AppService) {
	wanted, refused := workload.BackupJob(a)
	if len(refused) > 0 { // there is none
		return
	}
	j := &batchv1.Job{}
	if q.child("jobs", wanted.Name, j) && kube.ChildNames.IsOurs(wanted, j) {
		q.readJob(j)
	}
}

// backupFailed is the cause where nothing else tells why the backup failed.
func backupFailed(a *v1alpha1.AppService) *diagnosis.Cause {
	b := a.Status.Backup
	advice := "put right what keeps the command from ending well: it is run again"
	switch {
	case a.Spec.Backup.JobTemplate != nil:
		advice = "put right what keeps the Job from ending well, and delete the Job: it is run again"
	case a.Spec.Suspend || a.Spec.Size == 0:
		advice = "the command needs a pod to run in: set spec.suspend to false and spec.size to 1 or more"
	}
	return &diagnosis.Cause{
		Reason: v1alpha1.ReasonBackupFailed, Object: diagnosis.Object{Kind: v1alpha1.KindAppService, Name: a.Name},
		Message: "the backup failed: " + b.Message, Advice: advice, Transient: a.Spec.Backup.Exec != nil, Count: b.Attempts,
	}
}
