// Package notify delivers the messages in the outbox to their receivers. Each receiver
// has its own queue with at most one request in flight. Messages beyond the rate limit
// are combined into one digest. Failed requests are retried with back-off, or stop the receiver if
// retries cannot help.
//
// The packages below it implement Notifier, one for each type of receiver.
package notify

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// sweepInterval is the time between two checks for messages that are too old or whose
// receiver no longer exists.
const sweepInterval = time.Minute

// Options of a Dispatcher. A zero field takes its default.
type Options struct {
	// MaxAge is how long the Dispatcher tries to deliver a message. Default: 24 h.
	MaxAge time.Duration
	// MinBackoff and MaxBackoff limit the pause after a failed attempt.
	// Defaults: 1 s and 30 s, see backoff.go.
	MinBackoff, MaxBackoff time.Duration
	// Grace is how long requests in flight may continue after Run's context ends. It
	// must be shorter than the takeover by another leader. Default: 3 s.
	Grace time.Duration
	// MayLead reports whether no other process can be the leader. Nothing is sent otherwise.
	// Default: always true.
	MayLead func() bool
	// Orphaned reports whether a receiver that was never configured does not exist any more. It
	// gets an ID. The Dispatcher then drops its messages. Default: always false.
	Orphaned func(id string) bool
}

func (o Options) withDefaults() Options {
	o.MaxAge = cmp.Or(o.MaxAge, 24*time.Hour)
	o.MinBackoff = cmp.Or(o.MinBackoff, minRetry)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, maxRetry)
	o.Grace = cmp.Or(o.Grace, 3*time.Second)
	if o.MayLead == nil {
		o.MayLead = func() bool { return true }
	}
	if o.Orphaned == nil {
		o.Orphaned = func(string) bool { return false }
	}
	return o
}

// Dispatcher delivers the pending messages of the outbox. Each receiver with pending
// messages has its own goroutine, which ends when it has nothing left to send.
type Dispatcher struct {
	outbox   Store
	observer Observer
	clock    clock.Clock
	log      logr.Logger
	opts     Options

	workers  sync.WaitGroup
	inFlight *inFlight
	// computing limits the CPU for bodies and signatures.
	computing *computing

	mu sync.Mutex
	// queues are by ID. current contains the ID of each receiver that exists, by its key.
	queues   map[string]*queue
	current  map[string]string
	limiters limiters
	// running is nil before Run and after its context has ended.
	running *lifetime
}

// lifetime holds the contexts of one call of Run.
type lifetime struct {
	// work is Run's own context.
	work context.Context
	// requests ends after the grace period, which cancels requests in flight.
	requests context.Context
	// storage never ends, so that each answer is still stored during shutdown.
	storage context.Context
	// began is when Run was called.
	began time.Time
}

// NewDispatcher returns a Dispatcher. It sends nothing before Run.
func NewDispatcher(outbox Store, observer Observer, clk clock.Clock, log logr.Logger, opts Options) *Dispatcher {
	return &Dispatcher{
		outbox:   outbox,
		observer: byKey{observer},
		clock:    clk,
		log:      log,
		opts:     opts.withDefaults(),
		queues:   map[string]*queue{},
		current:  map[string]string{},
		limiters: limiters{},
		inFlight: newInFlight(),

		computing: newComputing(),
	}
}

// NeedLeaderElection is true: only the leader delivers.
func (d *Dispatcher) NeedLeaderElection() bool { return true }

// Run delivers messages until ctx ends. It then waits for requests in flight, at most
// for Options.Grace, and stores their results. Call it only once.
func (d *Dispatcher) Run(ctx context.Context) error {
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	d.begin(&lifetime{work: ctx, requests: requests, storage: context.WithoutCancel(ctx), began: d.clock.Now()})
	d.workers.Go(func() { d.repeatUntil(ctx.Done()) })
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
		cancelRequests()
		<-finished
	}
	return nil
}

func (d *Dispatcher) begin(l *lifetime) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = l
	for _, q := range d.queues {
		d.startWorker(q)
	}
}

func (d *Dispatcher) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = nil
}

// sweepUntil periodically starts a worker for every receiver with pending messages.
// This includes unusable receivers, because their messages expire too, and receivers with
// occurrences in groups, which can be dropped before they are due.
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
	keys := d.outbox.Receivers()
	orphans := d.orphans(keys)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range keys {
		q := d.queue(id)
		if !q.known && orphans[id] {
			q.deleted = true
		}
		d.startWorker(q)
	}
	d.limiters.sweep(d.clock.Now())
	d.computing.sweep(d.clock.Now())
}

// orphans returns the receivers that do not exist any more. It may read from the API server, so the caller must not hold d.mu.
func (d *Dispatcher) orphans(keys []string) map[string]bool {
	d.mu.Lock()
	unknown := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		q := d.queues[key]
		return q != nil && q.known
	})
	d.mu.Unlock()
	orphans := map[string]bool{}
	for _, key := range unknown {
		orphans[key] = d.opts.Orphaned(key)
	}
	return orphans
}

// startWorker starts the queue's goroutine, or makes the running one check the queue
// again. The caller holds d.mu.
func (d *Dispatcher) startWorker(q *queue) {
	q.woken = true
	if d.running == nil || q.working {
		return
	}
	q.working = true
	w := &worker{Dispatcher: d, lifetime: d.running, queue: q}
	d.workers.Go(w.run)
}

// stopWorker marks the queue's goroutine as ended, unless the queue was woken in the
// meantime. It reports whether the goroutine must end.
func (d *Dispatcher) stopWorker(q *queue) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.woken && d.running != nil {
		q.woken = false
		return false
	}
	q.working = false
	if !q.known && !q.deleted && !q.failing {
		delete(d.queues, q.key)
	}
	return true
}
