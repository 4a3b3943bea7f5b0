package appservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/workload"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// backUpByJob has the Job run: one, whose name follows from the AppService, however
// often the operator is restarted. One that failed and that somebody then deleted is
// made again.
func (r *Reconciler) backUpByJob(ctx context.Context, a *app) error {
	wanted, refused := workload.BackupJob(a.AppService)
	if len(refused) > 0 {
		r.failBackup(a, refused.ToAggregate().Error(), true)
		return nil
	}
	var job batchv1.Job
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), &job)
	if apierrors.IsNotFound(err) { // the cache may be late
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), &job)
	}
	b := r.backupStatus(a)
	switch {
	case apierrors.IsNotFound(err) && b.Phase == v1alpha1.BackupRunning && b.Attempts > 0:
		r.failBackup(a, fmt.Sprintf("Job %s was deleted before it ended", wanted.Name), true)
		return nil
	case apierrors.IsNotFound(err):
		return r.startJob(ctx, a, wanted)
	case err != nil:
		return err
	case !kube.ChildNames.IsOurs(wanted, &job):
		r.failBackup(a, children.NewConflict("Job", &job).Error(), true)
		return nil
	}
	b.Attempts = max(b.Attempts, 1)
	r.judgeJob(a, &job)
	return nil
}

func (r *Reconciler) startJob(ctx context.Context, a *app, wanted *batchv1.Job) error {
	err := r.Children.Make(ctx, wanted, &batchv1.Job{})
	var conflict *children.ConflictError
	switch {
	case err == nil:
		r.startBackup(a)
		a.Status.Backup.Attempts++
		return nil
	case errors.As(err, &conflict):
		r.failBackup(a, conflict.Error(), true)
		return nil
	}
	cause, terminal := diagnosis.FromAPIError(diagnosis.Object{Kind: "Job", Name: wanted.Name}, err)
	if !terminal {
		return err
	}
	r.failBackup(a, cause.Sentence(), true)
	a.RequeueAfter(r.RetryRefused(a.State))
	return nil
}

// judgeJob says what the Job came to.
func (r *Reconciler) judgeJob(a *app, job *batchv1.Job) {
	if c := jobCondition(job, batchv1.JobComplete); c != nil {
		r.endBackup(a, v1alpha1.BackupSucceeded, fmt.Sprintf("Job %s is complete", job.Name))
		return
	}
	if c := jobCondition(job, batchv1.JobFailed); c != nil {
		r.failBackup(a, fmt.Sprintf("Job %s failed: %s; delete the Job to have it run again", job.Name, cmp.Or(c.Message, c.Reason)), true)
		return
	}
	r.startBackup(a)
}

// jobCondition returns a condition that is True, else nil.
func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
