package watch

import (
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// crowded is how many changes may wait before those of one object are put
// together.
const crowded = 1000

// backlog holds the changes that wait to be printed, in their order.
//
// Its items are changes: keys would come to one where an object is added and
// deleted while both wait, and nothing would be told of it. But when whoever reads
// the output falls behind, an update of an object joins the one of the same object
// that waits already, so that memory does not grow with every update. What comes
// and what goes is always told.
//
// No item is ever put back, so there is no rate to limit: a change that can not be
// printed ends the watch.
type backlog struct {
	queue workqueue.TypedInterface[*Change]

	mu sync.Mutex
	// last is the change of each object that was put in last, if it still waits.
	last map[cache.ObjectName]*Change
}

func newBacklog() *backlog {
	return &backlog{queue: workqueue.NewTyped[*Change](), last: map[cache.ObjectName]*Change{}}
}

func (b *backlog) put(c *Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := c.name()
	if last := b.last[name]; c.Type == Modified && last != nil && last.Type == Modified && b.queue.Len() >= crowded {
		last.Object, last.Time = c.Object, c.Time
		return
	}
	b.last[name] = c
	b.queue.Add(c)
}

// take waits for a change. There is none when the backlog is closed.
func (b *backlog) take() (*Change, bool) {
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

// close lets what waits be taken, and nothing more be put in.
func (b *backlog) close() { b.queue.ShutDown() }
