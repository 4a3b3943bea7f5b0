package reconciler

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/internal/kube"
)

// EndedPods enqueues objects for changes of their pods. It keeps the last pod of each object that was
// evicted, rejected or preempted. The pod's controller replaces it within milliseconds, so that a
// reconcile would often not see it.
type EndedPods struct {
	handler.EventHandler
	// label names the object of a pod.
	label string

	mu   sync.Mutex
	pods map[types.NamespacedName]*corev1.Pod
}

// NewEndedPods returns EndedPods for objects that a label of their pods names.
func NewEndedPods(label string) *EndedPods {
	return &EndedPods{EventHandler: ByLabel(label), label: label, pods: map[types.NamespacedName]*corev1.Pod{}}
}

// Update implements [handler.EventHandler].
func (e *EndedPods) Update(ctx context.Context, change event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	e.keep(change.ObjectNew)
	e.EventHandler.Update(ctx, change, queue)
}

// Delete implements [handler.EventHandler].
func (e *EndedPods) Delete(ctx context.Context, deletion event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	e.keep(deletion.Object)
	e.EventHandler.Delete(ctx, deletion, queue)
}

// keep keeps a pod if it was ended.
func (e *EndedPods) keep(o client.Object) {
	pod, isPod := o.(*corev1.Pod)
	if !isPod || pod.Status.Phase != corev1.PodFailed && !kube.IsDisrupted(pod) || pod.Labels[e.label] == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[e.label]}] = pod
}

// Of returns the kept pod of an object, or nil. Any user can set the label of a pod, so controls must
// confirm that it belongs to the object.
func (e *EndedPods) Of(name types.NamespacedName, controls func(*corev1.Pod) bool) *corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod := e.pods[name]; pod != nil && controls(pod) {
		return pod
	}
	return nil
}

// Reported releases a pod that the status contains. The pod can be nil.
func (e *EndedPods) Reported(name types.NamespacedName, pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod != nil && e.pods[name] == pod {
		delete(e.pods, name)
	}
}

// Forget releases the pod of an object that no longer exists or is blocked.
func (e *EndedPods) Forget(name types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pods, name)
}
