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
	if err := r.listNodes(ctx, object, pods); err != nil {
		return nil, err
	}
	object.Status.Pods = r.prober.Probe(client.ObjectKeyFromObject(object), &memcachedProbe, pods, object.Status.Pods)
	return r.diagnose(ctx, object, found, pods)
}

// listNodes puts the names of the pods into the status, and reports each new pod as an Event. If the
// operator is killed before it writes the status, it emits the same Event again, which has no effect.
func (r *MemcachedReconciler) listNodes(ctx context.Context, object *cachev1alpha1.Memcached, pods []*corev1.Pod) error {
	var nodes []string
	for _, pod := range pods {
		nodes = append(nodes, pod.Name)
		if slices.Contains(object.Status.Nodes, pod.Name) {
			continue
		}
		created := events.Event{
			Type: corev1.EventTypeNormal, Reason: "CreatedPod", Action: "Reconcile",
			Note: "created pod " + pod.Name, Identity: pod.Name, Since: pod.CreationTimestamp.Time,
		}
		if err := r.events.Emit(ctx, object, created); err != nil {
			return err
		}
	}
	slices.Sort(nodes)
	object.Status.Nodes = nodes
	return nil
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
	if crash, _ := diagnosis.Recovering(pods, time.Now()); crash != nil { // they run for a moment between two crashes
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

// report emits the cause as an Event, once for each transition of Ready. It returns when to reconcile again.
func (r *MemcachedReconciler) report(ctx context.Context, object *cachev1alpha1.Memcached, deployment *appsv1.Deployment, cause *diagnosis.Cause) (time.Duration, error) {
	if cause == nil {
		return 0, nil
	}
	if cause.Reason == memcachedProgressing {
		return 10 * time.Second, nil // a pod that never becomes ready does not change
	}
	reason, wait := cause.EventReason(time.Now())
	if wait > 0 {
		return wait, nil
	}
	if cause.Object.Kind == "Deployment" && failedToCreatePod(deployment) {
		reason = "FailedToCreatePod"
	}
	since := meta.FindStatusCondition(object.Status.Conditions, "Ready").LastTransitionTime.Time
	err := r.events.Emit(ctx, object, events.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Action: "Reconcile", Note: cause.Sentence(), Identity: cause.Identity(), Since: since,
	})
	return step.Sooner(r.events.NextRepeat(since), 10*time.Second), err
}

// failedToCreatePod reports whether the ReplicaSet cannot create a pod.
func failedToCreatePod(deployment *appsv1.Deployment) bool {
	return slices.ContainsFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
	})
}
