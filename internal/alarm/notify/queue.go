package notify

import "golang.org/x/time/rate"

// queue is what is known of one receiver. The Dispatcher's mutex guards it.
type queue struct {
	key string
	// receiver is nil while it is not known, not usable or deleted.
	receiver *Receiver
	limiter  *rate.Limiter
	// known: it was configured or disabled, and not deleted since. What waits for a
	// receiver that never was there is not dropped because it still is not.
	known bool
	// forgotten: what is pending is to be dropped.
	forgotten bool
	// parked: nothing is tried until the receiver changes.
	parked bool
	// failure is how the last attempt with the present configuration failed.
	failure *SendError
	// failing: the observer was told of a failure, and not yet that it is over.
	failing bool
	// changed is closed when any of the above was changed from outside; it cuts
	// pauses short.
	changed chan struct{}

	// working: a goroutine serves the queue. woken: it is to look once more.
	working, woken bool
}

func (q *queue) usable() bool { return q.receiver != nil && !q.parked }

// queue returns that of key. d.mu is held.
func (d *Dispatcher) queue(key string) *queue {
	q, ok := d.queues[key]
	if !ok {
		q = &queue{key: key, changed: make(chan struct{})}
		d.queues[key] = q
	}
	return q
}

// Configure makes a receiver known or replaces it: what is parked is tried anew,
// and the next attempt uses it.
func (d *Dispatcher) Configure(r Receiver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(r.Key)
	if q.receiver != nil && r.Fingerprint != "" && q.receiver.Fingerprint == r.Fingerprint {
		return
	}
	q.known, q.forgotten = true, false
	d.change(q, &r)
}

// Disable says that the receiver exists but cannot be used now, for example for
// want of its Secret: what is pending waits.
func (d *Dispatcher) Disable(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(key)
	q.known = true
	d.change(q, nil)
}

// Forget says that there is no such receiver. If there was one, it was deleted,
// and what is pending for it is dropped; if it is configured again before that was
// done, nothing is dropped. If there never was one, what is pending waits for it.
func (d *Dispatcher) Forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.queues[key]
	if !ok || !q.known {
		return
	}
	q.known, q.forgotten = false, true
	q.failing = false
	d.change(q, nil)
}

// Wake says that something was committed for these receivers.
func (d *Dispatcher) Wake(keys ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		if q, ok := d.queues[key]; ok && q.usable() {
			d.launch(q)
		}
	}
}

// Failure returns how the receiver's last attempt with its present configuration
// failed; nil if it succeeded or there was none.
func (d *Dispatcher) Failure(key string) *SendError {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[key]; ok {
		return q.failure
	}
	return nil
}

// change puts r, which may be nil, in the place of the queue's receiver. d.mu is
// held.
func (d *Dispatcher) change(q *queue, r *Receiver) {
	former := q.receiver
	q.receiver, q.limiter = r, d.limiters.acquire(r)
	d.limiters.release(former)
	q.parked = false
	q.failure = nil
	close(q.changed)
	q.changed = make(chan struct{})
	d.launch(q)
}

// rest ends the queue's goroutine unless there is something new to look at; it
// reports whether it did.
func (d *Dispatcher) rest(q *queue) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.woken && d.running != nil {
		q.woken = false
		return false
	}
	q.working = false
	if !q.known && !q.forgotten && !q.failing {
		delete(d.queues, q.key)
	}
	return true
}
