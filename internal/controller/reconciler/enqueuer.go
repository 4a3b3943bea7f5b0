package reconciler

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bongsu-io/bongsu/internal/kube"
)

// Enqueuer enqueues objects of a controller. Pass its SetQueue to source.Func. It is safe for
// concurrent use.
type Enqueuer struct {
	mu sync.Mutex
	// queue is nil until the controller starts, which enqueues every object.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// SetQueue stores the queue of the controller.
func (e *Enqueuer) SetQueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = queue
	return nil
}

// Enqueue enqueues an object.
func (e *Enqueuer) Enqueue(key kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue != nil {
		e.queue.Add(reconcile.Request{NamespacedName: key.NamespacedName()})
	}
}
