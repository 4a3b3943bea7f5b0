package jupyter

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/reconciler"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// endedPods enqueues notebooks for changes of their pods. It keeps the last pod of each that was
// evicted, rejected or preempted. The StatefulSet controller replaces such a pod within
// milliseconds, so that a reconcile would often not see it.
type endedPods struct {
	handler.EventHandler

	mu   sync.Mutex
	pods map[types.NamespacedName]*corev1.Pod
}

func newEndedPods() *endedPods {
	return &endedPods{EventHandler: reconciler.ByLabel(v1alpha1.LabelJupyter), pods: map[types.NamespacedName]*corev1.Pod{}}
}

// Update implements [handler.EventHandler].
func (e *endedPods) Update(ctx context.Context, change event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	e.keep(change.ObjectNew)
	e.EventHandler.Update(ctx, change, queue)
}

// Delete implements [handler.EventHandler].
func (e *endedPods) Delete(ctx context.Context, deletion event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	e.keep(deletion.Object)
	e.EventHandler.Delete(ctx, deletion, queue)
}

// keep keeps a pod if it was ended.
func (e *endedPods) keep(o client.Object) {
	pod, isPod := o.(*corev1.Pod)
	if !isPod || pod.Status.Phase != corev1.PodFailed && !kube.IsDisrupted(pod) || pod.Labels[v1alpha1.LabelJupyter] == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelJupyter]}] = pod
}

// of returns the kept pod of a notebook, or nil. Any user can set the label of a pod, so the
// StatefulSet must control it.
func (e *endedPods) of(n *notebook) *corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	pod := e.pods[n.name]
	if pod == nil || n.set.UID == "" || !metav1.IsControlledBy(pod, &n.set) {
		return nil
	}
	return pod
}

// forget releases a pod that the status contains.
func (e *endedPods) forget(name types.NamespacedName, reported *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if reported != nil && e.pods[name] == reported {
		delete(e.pods, name)
	}
}

// forgetAll releases the pod of a notebook that no longer exists or is blocked.
func (e *endedPods) forgetAll(name types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pods, name)
}
