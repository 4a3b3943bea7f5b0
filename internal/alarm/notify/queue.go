package notify

import (
	"time"

	"golang.org/x/time/rate"
)

// Receiver is the configuration of one receiver.
type Receiver struct {
	// Key is "AlarmReceiver/NAMESPACE/NAME" or "ClusterAlarmReceiver//NAME".
	Key string
	// Fingerprint is a digest of everything the receiver was built from, including
	// Secrets. Configure ignores a receiver with an unchanged fingerprint, so that
	// reconciles for other reasons do not unpark it. An empty one always differs.
	Fingerprint string
	// Notifier sends to the receiver.
	Notifier Notifier
	// Limit is the receiver's rate limit. The zero Limit means unlimited.
	Limit Limit
}

// Limit is a rate limit. Messages that it holds back are sent as one digest.
type Limit struct {
	// Key identifies the limit. Receivers with the same key share it. It must not
	// reveal the value of a Secret.
	Key string
	// Every is the minimum time between two messages; 0 means unlimited.
	Every time.Duration
}

// queue is the state of one receiver. The Dispatcher's mutex guards it.
type queue struct {
	key string
	// receiver is nil while the receiver is unknown, disabled or deleted.
	receiver *Receiver
	limiter  *rate.Limiter
	// known is true from the first Configure or Disable until Forget. Messages for a
	// receiver that was never known are kept, because it may still be created.
	known bool
	// deleted means that the pending messages must be dropped.
	deleted bool
	// parked means that nothing is sent until the receiver changes.
	parked bool
	// failure is the error of the last attempt with the current configuration.
	failure *SendError
	// failing is true from Observer.Failing until Observer.Recovered.
	failing bool
	// changed is closed when the configuration changes, which ends pauses early.
	changed chan struct{}

	// working means that a goroutine serves the queue, woken that it must check the
	// queue once more.
	working, woken bool
}

func (q *queue) usable() bool { return q.receiver != nil && !q.parked }

// queue returns the queue of key and creates it if needed. The caller holds d.mu.
func (d *Dispatcher) queue(key string) *queue {
	q, ok := d.queues[key]
	if !ok {
		q = &queue{key: key, changed: make(chan struct{})}
		d.queues[key] = q
	}
	return q
}

// Configure adds or replaces a receiver. It unparks the receiver, and the next attempt
// uses the new configuration.
func (d *Dispatcher) Configure(r Receiver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(r.Key)
	if q.receiver != nil && r.Fingerprint != "" && q.receiver.Fingerprint == r.Fingerprint {
		return
	}
	q.known, q.deleted = true, false
	d.replace(q, &r)
}

// Disable records that the receiver exists but is unusable, for example because its
// Secret is missing. Pending messages wait.
func (d *Dispatcher) Disable(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(key)
	q.known = true
	d.replace(q, nil)
}

// Forget records that the receiver does not exist. If it existed before, the Dispatcher
// drops its pending messages, unless it is configured again first. Otherwise the
// messages wait for it.
func (d *Dispatcher) Forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.queues[key]
	if !ok || !q.known {
		return
	}
	q.known, q.deleted = false, true
	q.failing = false
	d.replace(q, nil)
}

// Wake announces new messages for these receivers.
func (d *Dispatcher) Wake(keys ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		if q, ok := d.queues[key]; ok && q.usable() {
			d.startWorker(q)
		}
	}
}

// Failure returns the error of the receiver's last attempt with its current
// configuration. It returns nil if the attempt succeeded or there was none.
func (d *Dispatcher) Failure(key string) *SendError {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[key]; ok {
		return q.failure
	}
	return nil
}

// replace replaces the queue's receiver with r, which may be nil. The caller holds d.mu.
func (d *Dispatcher) replace(q *queue, r *Receiver) {
	former := q.receiver
	q.receiver, q.limiter = r, d.limiters.acquire(r)
	d.limiters.release(former)
	q.parked = false
	q.failure = nil
	close(q.changed)
	q.changed = make(chan struct{})
	d.startWorker(q)
}

// limiters holds the limiters in use. Receivers with equal limits share one.
type limiters map[Limit]*limiter

type limiter struct {
	*rate.Limiter
	users int
}

// acquire returns the limiter of r, or nil if r has no limit.
func (l limiters) acquire(r *Receiver) *rate.Limiter {
	limit := limitOf(r)
	if limit.Every <= 0 {
		return nil
	}
	shared, ok := l[limit]
	if !ok {
		shared = &limiter{Limiter: rate.NewLimiter(rate.Every(limit.Every), 1)}
		l[limit] = shared
	}
	shared.users++
	return shared.Limiter
}

func (l limiters) release(r *Receiver) {
	limit := limitOf(r)
	shared, ok := l[limit]
	if !ok {
		return
	}
	if shared.users--; shared.users == 0 {
		delete(l, limit)
	}
}

// limitOf returns the limit of r. A limit without a key is not shared with other
// receivers.
func limitOf(r *Receiver) Limit {
	if r == nil || r.Limit.Every <= 0 {
		return Limit{}
	}
	limit := r.Limit
	if limit.Key == "" {
		limit.Key = r.Key
	}
	return limit
}
