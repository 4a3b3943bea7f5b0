package probe

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// grace is how long a run whose context has ended is waited for: to close a
// connection takes a moment.
const grace = time.Second

// flight is a run that was started.
type flight[T any] struct {
	entry  *entry[T]
	cancel context.CancelFunc
	// attended: a worker is with it, to wait for it or to report that it is overdue.
	attended bool
	// returned: there is nothing to wait for any more.
	returned bool
}

// await runs a check and reports its result, or gives the run up.
func (p *Pool[T]) await(ctx, runCtx context.Context, f *flight[T], check Check[T]) {
	defer p.leave(f, check.PodUID)
	result := make(chan T, 1) // whoever is given up must not wait for a reader
	go func() {
		defer p.land(f, check.PodUID)
		result <- check.Run(runCtx)
	}()
	if r, ok := p.receive(runCtx, result); ok {
		p.settle(ctx, f.entry, check, r)
	} else if check.Overdue != nil {
		p.settle(ctx, f.entry, check, check.Overdue())
	}
}

// receive waits for a result, and not much longer than the context lives.
func (p *Pool[T]) receive(runCtx context.Context, result <-chan T) (r T, ok bool) {
	select {
	case r = <-result:
		return r, true
	case <-runCtx.Done():
	}
	timer := p.clock.NewTimer(grace)
	defer timer.Stop()
	select {
	case r = <-result:
		return r, true
	case <-timer.C():
		return r, false
	}
}

// remind reports of a check that is due that its former run has not returned.
func (p *Pool[T]) remind(ctx context.Context, former *flight[T], e *entry[T], check Check[T]) {
	defer p.leave(former, check.PodUID)
	p.settle(ctx, e, check, check.Overdue())
}

// settle reports a result that still counts.
func (p *Pool[T]) settle(ctx context.Context, e *entry[T], check Check[T], r T) {
	if ctx.Err() != nil || !p.holds(e) {
		return
	}
	p.report(ctx, check.Key, check.PodUID, r)
}

func (p *Pool[T]) holds(e *entry[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checks.holds(e)
}

// leave frees the worker that was with a run.
func (p *Pool[T]) leave(f *flight[T], podUID types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.release(f.entry.namespace())
	f.attended = false
	p.forget(f, podUID)
	p.rouse()
}

// land notes that a run has returned.
func (p *Pool[T]) land(f *flight[T], podUID types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.returned = true
	p.forget(f, podUID)
}

// forget lets the pod be checked again once its run has returned and been reported.
func (p *Pool[T]) forget(f *flight[T], podUID types.UID) {
	if f.returned && !f.attended {
		f.cancel()
		delete(p.flying, podUID)
	}
}
