package probe

import (
	"context"
	"sync"
)

// hasRoomFor says whether a namespace may have one more worker: as long as it has fewer
// than are free. So one whose runs all hang gets half of them, the next half of what is
// left, and there are some for whoever comes then: the dynamic thresholds by which
// switches share their buffers (Choudhury and Hahne, 1998).
func (p *Pool[T]) hasRoomFor(namespace string) bool {
	return p.busyOf[namespace] < p.workers-p.busy
}

// postpone has a check wait for its namespace to have room. One that waits already does
// not wait twice: what was missed is not made up for.
func (p *Pool[T]) postpone(e *entry[T]) {
	if !e.postponed {
		e.postponed = true
		p.postponed[e.namespace()] = append(p.postponed[e.namespace()], e)
	}
}

// resume starts what was postponed, those first that wait for the longest, as far as
// there is room.
func (p *Pool[T]) resume(ctx context.Context, runs *sync.WaitGroup) {
	for namespace, waiting := range p.postponed {
		for len(waiting) > 0 && p.hasRoomFor(namespace) {
			e := waiting[0]
			waiting[0], waiting = nil, waiting[1:] // for the garbage collector
			e.postponed = false
			if p.checks.holds(e) {
				p.launch(ctx, e, runs)
			}
		}
		if len(waiting) == 0 {
			delete(p.postponed, namespace)
		} else {
			p.postponed[namespace] = waiting
		}
	}
}

// release gives a worker of a namespace back.
func (p *Pool[T]) release(namespace string) {
	if p.busyOf[namespace]--; p.busyOf[namespace] == 0 {
		delete(p.busyOf, namespace)
	}
}
