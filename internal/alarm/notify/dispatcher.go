package notify

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// sweepInterval is how often what waits for an unusable receiver is looked at for
// its age.
const sweepInterval = time.Minute

// Dispatcher delivers what is pending in the outbox. Each receiver with something
// to send has a goroutine of its own, which ends when there is nothing left.
type Dispatcher struct {
	outbox   Outbox
	observer Observer
	clock    clock.Clock
	log      logr.Logger
	opts     Options

	workers sync.WaitGroup

	mu       sync.Mutex
	queues   map[string]*queue
	limiters limiters
	// running is nil before Run and after its context ended.
	running *lifetime
}

// lifetime holds the contexts of a Run.
type lifetime struct {
	// work ends when Run is to end.
	work context.Context
	// requests ends when those in flight are to be abandoned.
	requests context.Context
	// marking outlives both: what was answered is settled whatever happens.
	marking context.Context
}

// NewDispatcher returns a Dispatcher; nothing is sent before Run.
func NewDispatcher(outbox Outbox, observer Observer, clk clock.Clock, log logr.Logger, opts Options) *Dispatcher {
	return &Dispatcher{
		outbox:   outbox,
		observer: observer,
		clock:    clk,
		log:      log,
		opts:     opts.withDefaults(),
		queues:   map[string]*queue{},
		limiters: limiters{},
	}
}

// NeedLeaderElection is true: only one may deliver.
func (d *Dispatcher) NeedLeaderElection() bool { return true }

// Run delivers until ctx ends, then lets requests in flight finish within the
// grace and settles what was answered. It is to be called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	requests, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	d.begin(&lifetime{work: ctx, requests: requests, marking: context.WithoutCancel(ctx)})
	d.sweepUntil(ctx.Done())
	d.end()

	grace := d.clock.NewTimer(d.opts.Grace)
	defer grace.Stop()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		d.workers.Wait()
	}()
	select {
	case <-finished:
	case <-grace.C():
		abandon()
		<-finished
	}
	return nil
}

func (d *Dispatcher) begin(l *lifetime) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = l
	for _, q := range d.queues {
		d.launch(q)
	}
}

func (d *Dispatcher) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = nil
}

// sweepUntil looks at every receiver with something pending, now and then: also
// those that are not usable, whose messages grow too old or have nobody left to
// wait for.
func (d *Dispatcher) sweepUntil(done <-chan struct{}) {
	for {
		d.sweep()
		timer := d.clock.NewTimer(sweepInterval)
		select {
		case <-timer.C():
		case <-done:
			timer.Stop()
			return
		}
	}
}

func (d *Dispatcher) sweep() {
	backlogs := d.outbox.Snapshot().Backlogs
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(backlogs)) {
		q := d.queue(key)
		if !q.known && d.opts.Orphaned(key) {
			q.forgotten = true
		}
		d.launch(q)
	}
}

// launch has the queue looked at: by its goroutine, or by a new one. d.mu is held.
func (d *Dispatcher) launch(q *queue) {
	q.woken = true
	if d.running == nil || q.working {
		return
	}
	q.working = true
	w := &worker{Dispatcher: d, lifetime: d.running, queue: q}
	d.workers.Go(w.run)
}
