package probe

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// returnGrace is how long a run may take to return after its context has ended, for
// example to close a connection.
const returnGrace = time.Second

// run is a run that was started.
type run[T any] struct {
	entry  *entry[T]
	cancel context.CancelFunc
	// hasWorker: a worker waits for it, or reports that it is overdue.
	hasWorker bool
	// returned: the function of the check has returned.
	returned bool
}

// waitForRun runs a check and reports its result, or gives up on the run.
func (p *Pool[T]) waitForRun(ctx, runCtx context.Context, f *run[T], check Check[T]) {
	defer p.releaseWorker(f, check.PodUID)
	result := make(chan T, 1) // buffered: no one reads the result of a run that was given up
	go func() {
		defer p.markReturned(f, check.PodUID)
		result <- check.Run(runCtx)
	}()
	if r, ok := p.receive(runCtx, result); ok {
		p.deliver(ctx, f.entry, check, r)
	} else if check.Overdue != nil {
		p.deliver(ctx, f.entry, check, check.Overdue())
	}
}

// receive waits for a result until shortly after the end of the context.
func (p *Pool[T]) receive(runCtx context.Context, result <-chan T) (r T, ok bool) {
	select {
	case r = <-result:
		return r, true
	case <-runCtx.Done():
	}
	timer := p.clock.NewTimer(returnGrace)
	defer timer.Stop()
	select {
	case r = <-result:
		return r, true
	case <-timer.C():
		return r, false
	}
}

// reportOverdue reports that the previous run of a due check has not returned.
func (p *Pool[T]) reportOverdue(ctx context.Context, former *run[T], e *entry[T], check Check[T]) {
	defer p.releaseWorker(former, check.PodUID)
	p.deliver(ctx, e, check, check.Overdue())
}

// deliver reports a result, unless the check was replaced or removed.
func (p *Pool[T]) deliver(ctx context.Context, e *entry[T], check Check[T], r T) {
	if ctx.Err() != nil || !p.isCurrent(e) {
		return
	}
	p.report(ctx, check.Key, check.PodUID, r)
}

func (p *Pool[T]) isCurrent(e *entry[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checks.contains(e)
}

// releaseWorker frees the worker of a run.
func (p *Pool[T]) releaseWorker(f *run[T], podUID types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.decrementBusy(f.entry.namespace())
	f.hasWorker = false
	p.forget(f, podUID)
	p.wakeUp()
}

// markReturned records that a run has returned.
func (p *Pool[T]) markReturned(f *run[T], podUID types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.returned = true
	p.forget(f, podUID)
}

// forget allows the next run for the pod once its run has returned and was reported.
func (p *Pool[T]) forget(f *run[T], podUID types.UID) {
	if f.returned && !f.hasWorker {
		f.cancel()
		delete(p.inFlight, podUID)
	}
}

// hasCapacityFor reports whether a namespace may use another worker: it must use fewer
// than are free. A namespace whose runs all hang therefore uses half of the workers, and
// the next one half of the rest. Switches share their buffers by the same rule (dynamic
// thresholds, Choudhury and Hahne, 1998).
func (p *Pool[T]) hasCapacityFor(namespace string) bool {
	return p.busyOf[namespace] < p.workers-p.busy
}

// postpone queues a check until its namespace may use another worker. A queued check is
// not queued again: missed runs are not made up for.
func (p *Pool[T]) postpone(e *entry[T]) {
	if !e.postponed {
		e.postponed = true
		p.postponed[e.namespace()] = append(p.postponed[e.namespace()], e)
	}
}

// startPostponed starts postponed checks while there are workers, the oldest first.
func (p *Pool[T]) startPostponed(ctx context.Context, runs *sync.WaitGroup) {
	for namespace, waiting := range p.postponed {
		for len(waiting) > 0 && p.hasCapacityFor(namespace) {
			e := waiting[0]
			waiting[0], waiting = nil, waiting[1:] // for the garbage collector
			e.postponed = false
			if p.checks.contains(e) {
				p.startRun(ctx, e, runs)
			}
		}
		if len(waiting) == 0 {
			delete(p.postponed, namespace)
		} else {
			p.postponed[namespace] = waiting
		}
	}
}

// decrementBusy returns a worker of a namespace.
func (p *Pool[T]) decrementBusy(namespace string) {
	if p.busyOf[namespace]--; p.busyOf[namespace] == 0 {
		delete(p.busyOf, namespace)
	}
}
