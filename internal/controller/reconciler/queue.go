package reconciler

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	firstRetry = 5 * time.Millisecond
	// longestPause is how long a failed object waits at most. After an outage of the API server,
	// everything is reconciled within this time.
	longestPause = time.Minute
)

// Workers returns the options of a controller with this many workers. The objects of one
// namespace use half of them at most, so that objects that are slow to reconcile delay
// only others of their namespace. Objects without a namespace have no limit.
func Workers(number int) controller.Options {
	return WorkersFor(number, func(request reconcile.Request) string { return request.Namespace })
}

// WorkersFor is Workers for requests of another type.
func WorkersFor[T comparable](number int, namespace func(T) string) controller.TypedOptions[T] {
	return controller.TypedOptions[T]{
		MaxConcurrentReconciles: number,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstRetry, longestPause),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
			inner := priorityqueue.New(name, func(o *priorityqueue.Opts[T]) { o.RateLimiter = limiter })
			return newFairQueue(inner, max(number/2, 1), namespace)
		},
	}
}

// fairQueue limits how many items of a namespace are processed at the same time. Items
// beyond the limit leave the inner queue, and return to it when one of their namespace is
// done. They therefore never precede the items of other namespaces.
type fairQueue[T comparable] struct {
	priorityqueue.PriorityQueue[T]
	limit     int
	namespace func(T) string

	mu   sync.Mutex
	busy map[string]*share[T]
}

// share is what one namespace uses of the workers.
type share[T comparable] struct {
	processing int
	order      []T
	// priorities contains the items of order. An item is added with the last priority.
	priorities map[T]int
}

func newFairQueue[T comparable](inner priorityqueue.PriorityQueue[T], limit int, namespace func(T) string) *fairQueue[T] {
	return &fairQueue[T]{PriorityQueue: inner, limit: limit, namespace: namespace, busy: map[string]*share[T]{}}
}

// Get returns the next item whose namespace is below its limit.
func (q *fairQueue[T]) Get() (T, bool) {
	item, _, shutdown := q.GetWithPriority()
	return item, shutdown
}

// GetWithPriority is Get, and returns the priority of the item.
func (q *fairQueue[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	for {
		item, priority, shutdown = q.PriorityQueue.GetWithPriority()
		if shutdown || q.start(item, priority) {
			return item, priority, shutdown
		}
		q.PriorityQueue.Done(item)
	}
}

// start reports whether the item may be processed now. If not, it waits in its share.
func (q *fairQueue[T]) start(item T, priority int) bool {
	namespace := q.namespace(item)
	if namespace == "" {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.busy[namespace]
	if s == nil {
		s = &share[T]{priorities: map[T]int{}}
		q.busy[namespace] = s
	}
	if s.processing < q.limit {
		s.processing++
		return true
	}
	if _, waits := s.priorities[item]; !waits {
		s.order = append(s.order, item)
	}
	s.priorities[item] = priority
	return false
}

// Done marks the item as processed, and lets the next one of its namespace return to the
// inner queue.
func (q *fairQueue[T]) Done(item T) {
	q.PriorityQueue.Done(item)
	if next, priority, ok := q.next(q.namespace(item)); ok {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, next)
	}
}

func (q *fairQueue[T]) next(namespace string) (item T, priority int, ok bool) {
	if namespace == "" {
		return item, 0, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.busy[namespace]
	s.processing--
	if len(s.order) == 0 {
		if s.processing == 0 {
			delete(q.busy, namespace)
		}
		return item, 0, false
	}
	item, s.order = s.order[0], s.order[1:]
	priority = s.priorities[item]
	delete(s.priorities, item)
	return item, priority, true
}
