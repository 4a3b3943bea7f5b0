package finalizer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
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
// checks run before a Job is created. An error of one fails the attempt, for example because nothing
// can be backed up. They do not run while a Job exists that can still succeed.
//
// In a namespace that is being deleted, the error is a [SkipError].
//
// live must read from the API server: a cache can lack the Job, or a failure. The operator needs
// get, create and delete on Jobs, and list on pods. With list on Events of events.k8s.io, it also
// knows why there is no pod, for example because of a quota.
func (f *Finalizer) RunJob(ctx context.Context, live client.Reader, job *batchv1.Job, attempt int32, checks ...func() error) error {
	number := strconv.Itoa(int(attempt))
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, f.name, number)
	found := &batchv1.Job{}
	err := live.Get(ctx, client.ObjectKeyFromObject(job), found)
	switch {
	case apierrors.IsNotFound(err):
		return f.create(ctx, job, checks)
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
		return f.create(ctx, job, checks)
	}
	pods, err := podsOf(ctx, live, found)
	if err != nil {
		return err
	}
	cause := diagnosis.Diagnose(diagnosis.Workload{Pods: pods, Events: f.eventsOf(ctx, live, found, pods), Now: f.clock.Now()}).Cause
	switch {
	case failure != nil && cause != nil:
		return fmt.Errorf("the Job %s failed: %s", job.Name, cause.Sentence())
	case failure != nil:
		return fmt.Errorf("%s (Job %s)", failure.Message, job.Name)
	case cause != nil:
		return PendingError("Job " + job.Name + ": " + cause.Sentence())
	case len(pods) == 0 && f.isLate(found):
		return PendingError(fmt.Sprintf("Job %s has no pod: kubectl describe job -n %s %s shows why", job.Name, job.Namespace, job.Name))
	}
	return ErrPending
}

// create creates the Job. One that still exists is found by the next call.
func (f *Finalizer) create(ctx context.Context, job *batchv1.Job, checks []func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	err := f.client.Create(ctx, job)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return SkipError("the namespace is being deleted, so no Job can be created")
	}
	if cause, ok := diagnosis.FromAPIError(diagnosis.Object{Kind: "Job", Name: job.Name}, err); ok {
		return errors.New(cause.Sentence())
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return ErrPending
}

// isLate reports whether a Job should have pods by now.
func (f *Finalizer) isLate(job *batchv1.Job) bool {
	return f.clock.Since(job.CreationTimestamp.Time) >= pendingPause
}

// eventsOf returns the Events that can explain why a Job has no pod, or why its pods do not start.
// Without them, the message is less precise, so an error is no reason to fail the attempt.
func (f *Finalizer) eventsOf(ctx context.Context, live client.Reader, job *batchv1.Job, pods []*corev1.Pod) []diagnosis.Event {
	var found []diagnosis.Event
	var err error
	switch {
	case len(pods) > 0:
		found, err = events.OfUnready(ctx, live, pods, f.clock.Now())
	case f.isLate(job):
		found, err = events.List(ctx, live, job)
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "cannot read the Events of the Job", "job", job.Name)
	}
	return found
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
