package watch

import (
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// mergeAbove is the number of waiting changes from which on updates of one object are
// merged.
const mergeAbove = 1000

// backlog is the queue of changes to print, in their order.
//
// A queue of keys would drop an object that is added and deleted before it is printed.
// To bound memory when the output is read slowly, an update joins the update of the
// same object that already waits. Additions and deletions are never merged.
//
// Nothing is requeued: if a change cannot be printed, the watch ends.
type backlog struct {
	queue workqueue.TypedInterface[*Change]

	mu sync.Mutex
	// last is the newest change of each object, if it still waits.
	last map[cache.ObjectName]*Change
}

func newBacklog() *backlog {
	return &backlog{queue: workqueue.NewTyped[*Change](), last: map[cache.ObjectName]*Change{}}
}

func (b *backlog) add(c *Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := c.name()
	if last := b.last[name]; c.Type == Modified && last != nil && last.Type == Modified && b.queue.Len() >= mergeAbove {
		last.Object, last.Time = c.Object, c.Time
		return
	}
	b.last[name] = c
	b.queue.Add(c)
}

// next blocks until there is a change. It returns false once the backlog is closed and
// empty.
func (b *backlog) next() (*Change, bool) {
	c, closed := b.queue.Get()
	if closed {
		return nil, false
	}
	b.queue.Done(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	if name := c.name(); b.last[name] == c {
		delete(b.last, name)
	}
	return c, true
}

// close rejects further changes. The waiting ones can still be read.
func (b *backlog) close() { b.queue.ShutDown() }
