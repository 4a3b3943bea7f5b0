package reconciler

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Enqueuer enqueues objects of a controller for a change that no watch shows. Pass its SetQueue to
// source.Func. It is safe for concurrent use.
type Enqueuer struct {
	// delay is how long changes of an object are collected.
	delay time.Duration

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
func (e *Enqueuer) Enqueue(name types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue != nil {
		e.queue.AddAfter(reconcile.Request{NamespacedName: name}, e.delay)
	}
}
