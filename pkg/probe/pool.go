package probe

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// maxSpread limits the random delay of the first run, so that a check with a long period
// also gives its first result soon.
const maxSpread = time.Minute

// Check is a periodic check of a pod.
type Check[T any] struct {
	// Key identifies the check in its pool. Its namespace is the unit of fairness.
	Key types.NamespacedName
	// PodUID is the UID of the pod. Putting a check with another UID replaces the check.
	PodUID types.UID
	// InitialDelay is the time before the first run.
	InitialDelay time.Duration
	// Period is the time between the starts of two runs. It must be positive.
	Period time.Duration
	// Timeout limits each run. It must be positive.
	Timeout time.Duration
	// Run performs the check and returns its result. Its context ends at the timeout,
	// when the check is removed or replaced, and when the pool stops.
	Run func(ctx context.Context) T
	// Overdue returns the result that is reported for a run that ignores the end of its
	// context. It is called when the pool gives up on the run, and then once each period
	// until the run returns. If Overdue is nil, nothing is reported.
	Overdue func() T
}

// sameTiming reports whether the schedule of other fits this check.
func (c *Check[T]) sameTiming(other *Check[T]) bool {
	return c.PodUID == other.PodUID && c.InitialDelay == other.InitialDelay &&
		c.Period == other.Period && c.Timeout == other.Timeout
}

// firstDelay returns the delay of the first run. It is spread evenly among pods, and the
// same for the same pod in every process.
func (c *Check[T]) firstDelay() time.Duration {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, c.Key.String()+"/"+string(c.PodUID))
	spread := min(c.Period, maxSpread)
	return c.InitialDelay + time.Duration(mixBits(hash.Sum64())%uint64(spread))
}

// mixBits makes every bit of the result depend on every bit of h. FNV's high bits hardly
// differ for keys that differ only in their last character.
func mixBits(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}

// Pool runs checks. It is safe for concurrent use.
type Pool[T any] struct {
	workers int
	clock   clock.WithTicker
	report  func(ctx context.Context, key types.NamespacedName, podUID types.UID, result T)
	wake    chan struct{}

	mu      sync.Mutex
	started bool
	checks  *schedule[T]
	// inFlight are the runs that have not returned, including those given up.
	inFlight map[types.UID]*run[T]
	// busy counts the workers that wait for a run, and busyOf those of each namespace.
	busy   int
	busyOf map[string]int
	// postponed are the due checks of each namespace that wait for a worker.
	postponed map[string][]*entry[T]
}

// NewPool returns a pool that waits for at most workers runs at once. It calls report
// with each result, concurrently for different pods, but never for the same pod. report
// must return quickly. Remove does not stop a report that is in progress: compare the
// UID.
func NewPool[T any](
	workers int, clk clock.WithTicker,
	report func(ctx context.Context, key types.NamespacedName, podUID types.UID, result T),
) *Pool[T] {
	return &Pool[T]{
		workers:  max(1, workers),
		clock:    clk,
		report:   report,
		wake:     make(chan struct{}, 1),
		checks:   newSchedule[T](),
		inFlight: map[types.UID]*run[T]{},
		busyOf:   map[string]int{},

		postponed: map[string][]*entry[T]{},
	}
}

// Put adds a check. If there is one with the same key, pod and timing, it keeps its
// schedule and uses the new functions. If the timing differs, the check is scheduled
// again. If the pod differs, the check is replaced.
func (p *Pool[T]) Put(c Check[T]) {
	c.Period = max(c.Period, time.Millisecond) // prevents an endless loop
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelRun(p.checks.put(c, p.clock.Now()))
	p.wakeUp()
}

// Remove removes a check and cancels its run.
func (p *Pool[T]) Remove(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelRun(p.checks.remove(key))
}

// Len returns the number of checks.
func (p *Pool[T]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.checks.byKey)
}

// cancelRun cancels the run of an entry that was removed.
func (p *Pool[T]) cancelRun(e *entry[T]) {
	if e == nil {
		return
	}
	if f := p.inFlight[e.check.PodUID]; f != nil && f.entry == e {
		f.cancel()
	}
}

// wakeUp wakes the loop of Start.
func (p *Pool[T]) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Start runs checks until ctx ends. It then waits for the runs in flight, and one more
// second for runs that ignore their context. It implements manager.Runnable. A second
// call returns an error.
func (p *Pool[T]) Start(ctx context.Context) error {
	if err := p.markStarted(); err != nil {
		return err
	}
	var runs sync.WaitGroup
	defer runs.Wait()
	for {
		wait := p.dispatch(ctx, &runs)
		if err := p.sleep(ctx, wait); err != nil {
			return nil //nolint:nilerr // a stop is not an error
		}
	}
}

func (p *Pool[T]) markStarted() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return errors.New("the pool of probes was started already")
	}
	p.started = true
	return nil
}

// sleep waits until wakeUp is called, or for at most wait. If wait is 0, there is no
// limit.
func (p *Pool[T]) sleep(ctx context.Context, wait time.Duration) error {
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

// dispatch starts the checks that are due, while there are free workers. It returns the
// time until the next check is due. It returns 0 if only a free worker or a new check can
// change something.
func (p *Pool[T]) dispatch(ctx context.Context, runs *sync.WaitGroup) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.startPostponed(ctx, runs)
	for p.busy < p.workers {
		e := p.checks.next()
		if e == nil {
			return 0
		}
		if wait := e.dueAt.Sub(now); wait > 0 {
			return wait
		}
		p.checks.advance(e, now)
		if p.hasCapacityFor(e.namespace()) {
			p.startRun(ctx, e, runs)
		} else {
			p.postpone(e)
		}
	}
	return 0
}

// startRun starts a run, unless another run for the pod is in flight. If that is overdue,
// it is reported again.
func (p *Pool[T]) startRun(ctx context.Context, e *entry[T], runs *sync.WaitGroup) {
	check := e.check
	if former := p.inFlight[check.PodUID]; former != nil {
		if !former.hasWorker && check.Overdue != nil {
			p.assignWorker(former)
			runs.Go(func() { p.reportOverdue(ctx, former, e, check) })
		}
		return
	}
	runCtx, cancel := context.WithTimeout(ctx, check.Timeout) //nolint:gosec // forget calls it
	f := &run[T]{entry: e, cancel: cancel}
	p.inFlight[check.PodUID] = f
	p.assignWorker(f)
	runs.Go(func() { p.waitForRun(ctx, runCtx, f, check) })
}

func (p *Pool[T]) assignWorker(f *run[T]) {
	f.hasWorker = true
	p.busy++
	p.busyOf[f.entry.namespace()]++
}
