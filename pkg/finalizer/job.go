package finalizer

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

// RunJob does the work of an attempt in a Job. Call it in the function that you pass to Reconcile,
// with State.Attempts. It creates the Job, and returns ErrPending until the Job has ended. If
// its pods do not run, the error is a [PendingError] with the cause.
//
// The name of the Job must be the same in each attempt, and must contain the UID of the object. If
// the operator is killed, the next attempt continues with the Job that exists. A Job that failed in
// an earlier attempt is deleted and created again. An annotation with the name of the finalizer
// contains the number of the attempt.
//
// live must read from the API server: a cache can lack the Job, or a failure. The operator needs
// get, create and delete on Jobs, and list on pods.
func (f *Finalizer) RunJob(ctx context.Context, live client.Reader, job *batchv1.Job, attempt int32) error {
	number := strconv.Itoa(int(attempt))
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, f.name, number)
	found := &batchv1.Job{}
	err := live.Get(ctx, client.ObjectKeyFromObject(job), found)
	switch {
	case apierrors.IsNotFound(err):
		return f.create(ctx, job)
	case err != nil:
		return err
	case found.DeletionTimestamp != nil:
		return PendingError("the Job " + job.Name + " is being deleted")
	case isComplete(found):
		return nil
	}
	failure := diagnosis.FromJob(found)
	if failure != nil && found.Annotations[f.name] != number {
		uid := client.Preconditions{UID: &found.UID}
		if err := f.client.Delete(ctx, found, uid, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			return err
		}
		return f.create(ctx, job)
	}
	pods, err := podsOf(ctx, live, found)
	cause := diagnosis.Diagnose(diagnosis.Workload{Pods: pods}).Cause
	switch {
	case err != nil:
		return err
	case failure != nil && cause != nil:
		return fmt.Errorf("the Job %s failed: %s", job.Name, cause.Sentence())
	case failure != nil:
		return fmt.Errorf("%s (Job %s)", failure.Message, job.Name)
	case cause != nil:
		return PendingError("Job " + job.Name + ": " + cause.Sentence())
	case len(pods) == 0 && f.clock.Since(found.CreationTimestamp.Time) >= pendingPause:
		return PendingError(fmt.Sprintf("Job %s has no pod: kubectl describe job -n %s %s shows why", job.Name, job.Namespace, job.Name))
	}
	return ErrPending
}

// create creates the Job. One that still exists is found by the next call.
func (f *Finalizer) create(ctx context.Context, job *batchv1.Job) error {
	if err := f.client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return ErrPending
}

func isComplete(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

func podsOf(ctx context.Context, live client.Reader, job *batchv1.Job) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := live.List(ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}); err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}
