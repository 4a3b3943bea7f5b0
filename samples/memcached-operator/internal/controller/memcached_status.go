package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/condition"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
	"github.com/bongsu-io/bongsu/pkg/events"
	"github.com/bongsu-io/bongsu/pkg/probe"
	"github.com/bongsu-io/bongsu/pkg/step"

	cachev1alpha1 "github.com/bongsu-io/bongsu/samples/memcached-operator/api/v1alpha1"
)

// memcachedProgressing is the reason while pods start and nothing is wrong.
const memcachedProgressing = "Progressing"

// deploy creates or repairs the Deployment. It returns why its pods are not ready, or nil.
func (r *MemcachedReconciler) deploy(ctx context.Context, object *cachev1alpha1.Memcached, found *appsv1.Deployment) (*diagnosis.Cause, error) {
	wanted := r.deployment(object)
	object.Status.ObservedGeneration = object.Generation
	object.Status.Selector = labels.FormatLabels(wanted.Spec.Selector.MatchLabels)
	if err := r.children.Ensure(ctx, wanted, found); err != nil {
		return r.causeOf(wanted.Name, err)
	}
	object.Status.Size = found.Status.Replicas
	pods, err := r.podsOf(ctx, object)
	if err != nil {
		return nil, err
	}
	if err := r.announce(ctx, object, pods); err != nil {
		return nil, err
	}
	object.Status.Nodes = nil
	for _, pod := range pods {
		object.Status.Nodes = append(object.Status.Nodes, pod.Name)
	}
	slices.Sort(object.Status.Nodes)
	object.Status.Pods = r.prober.Probe(client.ObjectKeyFromObject(object), &memcachedProbe, pods, object.Status.Pods)
	return r.diagnose(ctx, object, found, pods)
}

// announce emits an Event for each new pod. It leaves out older pods, since Emit repeats Events.
func (r *MemcachedReconciler) announce(ctx context.Context, object *cachev1alpha1.Memcached, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		if created := pod.CreationTimestamp.Time; time.Since(created) < events.RepeatEvery {
			errs = append(errs, r.events.Emit(ctx, object, events.Event{
				Type: corev1.EventTypeNormal, Reason: "CreatedPod", Action: "Reconcile",
				Note: "created pod " + pod.Name, Identity: pod.Name, Since: created, Time: created,
			}))
		}
	}
	return errors.Join(errs...)
}

// causeOf returns the cause of an error that a user must fix. The queue retries other errors.
func (r *MemcachedReconciler) causeOf(deployment string, err error) (*diagnosis.Cause, error) {
	at := diagnosis.Object{Kind: "Deployment", Name: deployment}
	if conflict, ok := errors.AsType[*children.ConflictError](err); ok {
		return &diagnosis.Cause{Reason: diagnosis.ReasonResourceConflict, Object: at, Message: conflict.Error(), Advice: "delete it, or choose another name"}, nil
	}
	if cause, ok := diagnosis.FromAPIError(at, err); ok {
		return &cause, nil
	}
	return nil, err
}

// diagnose returns why the pods are not ready, or nil.
func (r *MemcachedReconciler) diagnose(ctx context.Context, object *cachev1alpha1.Memcached, deployment *appsv1.Deployment, pods []*corev1.Pod) (*diagnosis.Cause, error) {
	found, err := events.OfUnready(ctx, r.live, pods, time.Now()) // for example of a readiness probe that fails
	if err != nil {
		return nil, err
	}
	if cause := diagnosis.DiagnoseOr(diagnosis.Workload{Pods: pods, Events: found}, diagnosis.FromDeployment(deployment)).Cause; cause != nil {
		return cause, nil
	}
	if crash, _ := diagnosis.Recovering(diagnosis.Workload{Pods: pods}, time.Now()); crash != nil { // they run for a moment between two crashes
		return crash, nil
	}
	for _, pod := range object.Status.Pods {
		if pod.Health == probe.Unhealthy {
			return &diagnosis.Cause{Reason: pod.Reason, Object: diagnosis.Object{Kind: "Pod", Name: pod.Name}, Message: "pod " + pod.Name + ": " + pod.Message}, nil
		}
	}
	ready, wanted := deployment.Status.ReadyReplicas, *deployment.Spec.Replicas
	if ready < wanted || deployment.Status.ObservedGeneration < deployment.Generation {
		return &diagnosis.Cause{Reason: memcachedProgressing, Message: fmt.Sprintf("%d of %d pods are ready", ready, wanted)}, nil
	}
	return nil, nil
}

// setDeleting shows that the pods are no longer looked at. The object may be gone.
func (r *MemcachedReconciler) setDeleting(ctx context.Context, object *cachev1alpha1.Memcached) error {
	before := object.DeepCopy()
	r.setReady(object, &diagnosis.Cause{Reason: "Deleting", Message: "the object is being deleted"})
	return client.IgnoreNotFound(condition.UpdateStatus(ctx, r.Client, before, object))
}

// setReady sets the condition Ready in memory.
func (r *MemcachedReconciler) setReady(object *cachev1alpha1.Memcached, cause *diagnosis.Cause) {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "PodsReady", Message: "all pods are ready", ObservedGeneration: object.Generation}
	if cause != nil {
		if last := meta.FindStatusCondition(object.Status.Conditions, "Ready"); last != nil && last.Status == metav1.ConditionFalse {
			*cause = cause.Stabilize(&diagnosis.Failure{Reason: last.Reason, Message: last.Message, Object: cause.Object, Container: cause.Container})
		}
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, cause.Reason, cause.Sentence()
	}
	condition.Set(&object.Status.Conditions, ready, clock.RealClock{})
}

// report writes the status. It emits one Event for a failure, whatever stages it passes through, and
// one when all pods are ready again. It returns when to reconcile again.
func (r *MemcachedReconciler) report(ctx context.Context, before, object *cachev1alpha1.Memcached, deployment *appsv1.Deployment, cause *diagnosis.Cause) (time.Duration, error) {
	outcome := events.Outcome{Failure: cause, Works: cause == nil, Action: "Reconcile"}
	if cause != nil && cause.Reason == memcachedProgressing {
		outcome.Failure = nil
	} else if cause != nil && cause.Object.Kind == "Deployment" && failedToCreatePod(deployment) {
		outcome.Failure = new(*cause)
		outcome.Failure.Reason = "FailedToCreatePod"
	}
	again, err := r.events.Report(ctx, object, &object.Status.FailingSince, outcome, func(ctx context.Context) error {
		return condition.UpdateStatus(ctx, r.Client, before, object)
	})
	if cause != nil { // a pod that never becomes ready does not change
		again = step.Sooner(again, 10*time.Second)
	}
	return again, err
}

// failedToCreatePod reports whether the ReplicaSet cannot create a pod.
func failedToCreatePod(deployment *appsv1.Deployment) bool {
	return slices.ContainsFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
	})
}
