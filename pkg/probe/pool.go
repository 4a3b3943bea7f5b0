package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Pool runs checks. Its methods may be called from anywhere, at any time.
type Pool[T any] struct {
	workers int
	clock   clock.WithTicker
	report  func(ctx context.Context, key types.NamespacedName, podUID types.UID, result T)
	wake    chan struct{}

	mu      sync.Mutex
	started bool
	checks  *schedule[T]
	// flying are the runs that have not returned, given up or not.
	flying map[types.UID]*flight[T]
	// busy counts the workers that are with one of them, busyOf those of a namespace.
	busy   int
	busyOf map[string]int
	// postponed are the checks of a namespace that are due and have no worker yet.
	postponed map[string][]*entry[T]
}

// NewPool returns a pool that waits for so many runs at once. report is handed
// every result that counts. It is called from several goroutines, but for one pod
// by one at a time, and must be quick; a Remove that comes while it is being called
// does not take the call back, which is why it is told the pod's UID.
func NewPool[T any](
	workers int, clk clock.WithTicker,
	report func(ctx context.Context, key types.NamespacedName, podUID types.UID, result T),
) *Pool[T] {
	return &Pool[T]{
		workers: max(1, workers),
		clock:   clk,
		report:  report,
		wake:    make(chan struct{}, 1),
		checks:  newSchedule[T](),
		flying:  map[types.UID]*flight[T]{},
		busyOf:  map[string]int{},

		postponed: map[string][]*entry[T]{},
	}
}

// Put adds a check. One of the same key, pod and timing keeps its cadence, and runs
// what was put last; with another timing it is scheduled anew. One for another pod
// replaces it.
func (p *Pool[T]) Put(c Check[T]) {
	c.Period = max(c.Period, time.Millisecond) // or it would never be done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abort(p.checks.put(c, p.clock.Now()))
	p.rouse()
}

// Remove ends a check, and the run that is in flight for it.
func (p *Pool[T]) Remove(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abort(p.checks.remove(key))
}

// Len is how many checks there are.
func (p *Pool[T]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.checks.byKey)
}

// abort ends the run of an entry that is no longer held.
func (p *Pool[T]) abort(e *entry[T]) {
	if e == nil {
		return
	}
	if f := p.flying[e.check.PodUID]; f != nil && f.entry == e {
		f.cancel()
	}
}

// rouse has the loop look again.
func (p *Pool[T]) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Start runs checks until the context ends, and waits for the runs that there are
// then: those that ignore their context, not for long. It is a manager.Runnable, and
// can be called once.
func (p *Pool[T]) Start(ctx context.Context) error {
	if err := p.begin(); err != nil {
		return err
	}
	var runs sync.WaitGroup
	defer runs.Wait()
	for {
		wait := p.dispatch(ctx, &runs)
		if err := p.pause(ctx, wait); err != nil {
			return nil //nolint:nilerr // to be told to stop is no failure
		}
	}
}

func (p *Pool[T]) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return errors.New("the pool of probes was started already")
	}
	p.started = true
	return nil
}

// pause waits for a time, or without end if that is 0, and at most until there is
// something to look at.
func (p *Pool[T]) pause(ctx context.Context, wait time.Duration) error {
	var elapsed <-chan time.Time
	if wait > 0 {
		timer := p.clock.NewTimer(wait)
		defer timer.Stop()
		elapsed = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-elapsed:
	}
	return ctx.Err()
}

// dispatch starts what is due, as long as there are workers for it, and says how
// long nothing else will be: 0 if only a worker or a new check can change that.
func (p *Pool[T]) dispatch(ctx context.Context, runs *sync.WaitGroup) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.resume(ctx, runs)
	for p.busy < p.workers {
		e := p.checks.next()
		if e == nil {
			return 0
		}
		if wait := e.due.Sub(now); wait > 0 {
			return wait
		}
		p.checks.advance(e, now)
		if p.hasRoomFor(e.namespace()) {
			p.launch(ctx, e, runs)
		} else {
			p.postpone(e)
		}
	}
	return 0
}

// launch starts a run, unless one is in flight for that pod: of that it is told again
// that it is overdue, if it is.
func (p *Pool[T]) launch(ctx context.Context, e *entry[T], runs *sync.WaitGroup) {
	check := e.check
	if former := p.flying[check.PodUID]; former != nil {
		if !former.attended && check.Overdue != nil {
			p.attend(former)
			runs.Go(func() { p.remind(ctx, former, e, check) })
		}
		return
	}
	runCtx, cancel := context.WithTimeout(ctx, check.Timeout) //nolint:gosec // forget calls it
	f := &flight[T]{entry: e, cancel: cancel}
	p.flying[check.PodUID] = f
	p.attend(f)
	runs.Go(func() { p.await(ctx, runCtx, f, check) })
}

func (p *Pool[T]) attend(f *flight[T]) {
	f.attended = true
	p.busy++
	p.busyOf[f.entry.namespace()]++
}
