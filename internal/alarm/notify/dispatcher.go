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
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

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

// queue returns the queue of key and creates it if needed. The caller holds d.mu.
func (d *Dispatcher) queue(key string) *queue {
	q, ok := d.queues[key]
	if !ok {
		q = &queue{key: key}
		q.current, q.supersede = context.WithCancel(context.Background())
		d.queues[key] = q
	}
	return q
}

// Configure adds or replaces a receiver. It ends the receiver's pause, and the next attempt
// uses the new configuration.
func (d *Dispatcher) Configure(r Receiver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.present(alarm.ReceiverID(r.Key, r.UID))
	if q.receiver != nil && r.Fingerprint != "" && q.receiver.Fingerprint == r.Fingerprint {
		return
	}
	q.known, q.deleted = true, false
	d.replace(q, &r)
}

// Disable records that the receiver with this ID exists but is unusable, for example because
// its Secret is missing. Pending messages wait. A key means the receiver that exists now.
func (d *Dispatcher) Disable(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.present(d.receiverOf(id))
	q.known = true
	d.replace(q, nil)
}

// present returns the queue of the receiver that exists now. It forgets a former one of the
// same name. The caller holds d.mu.
func (d *Dispatcher) present(id string) *queue {
	key := alarm.ReceiverKey(id)
	former, ok := d.current[key]
	if ok && former == key && id != key {
		d.queue(former).known = false // it was disabled before its UID was known
	} else if former != id {
		d.forget(former)
	}
	d.current[key] = id
	return d.queue(id)
}

// Forget records that the receiver with this key does not exist. The Dispatcher drops its pending
// messages, unless it is configured again first.
func (d *Dispatcher) Forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(d.current[key])
	delete(d.current, key)
}

// forget drops the messages of a receiver. The caller holds d.mu.
func (d *Dispatcher) forget(id string) {
	q, ok := d.queues[id]
	if !ok || !q.known {
		return
	}
	q.known, q.deleted = false, true
	q.failing = false
	d.replace(q, nil)
}

// receiverOf returns the ID of the receiver that exists now, if id is a key. The caller holds d.mu.
func (d *Dispatcher) receiverOf(id string) string {
	if present, ok := d.current[id]; ok {
		return present
	}
	return id
}

// Wake announces new messages for receivers with these IDs.
func (d *Dispatcher) Wake(keys ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		if q, ok := d.queues[key]; ok && q.usable() {
			d.startWorker(q)
		}
	}
}

// replace replaces the queue's receiver with r, which may be nil. The caller holds d.mu.
func (d *Dispatcher) replace(q *queue, r *Receiver) {
	former := q.receiver
	q.receiver, q.limits = r, d.limiters.acquire(r)
	d.limiters.release(former)
	q.failure, q.next, q.changed = nil, time.Time{}, true
	q.attempt = lastAttempt{}
	q.repeats.forget()
	switch {
	case r == nil:
	case r.Drop == "":
		q.dropped = ""
	case q.dropped == "":
		q.dropped = r.Dropped
	}
	if r != nil && q.tested == "" {
		q.tested = r.Tested
	}
	q.supersede()
	q.current, q.supersede = context.WithCancel(context.Background())
	d.startWorker(q)
}
