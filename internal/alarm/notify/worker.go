package notify

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// worker is the goroutine of one queue: it sends what is pending, one message
// after the other, until there is nothing that can be sent now.
type worker struct {
	*Dispatcher
	*lifetime
	queue   *queue
	backoff backoff
	// answered is a message whose fate is known and not yet in the ledger.
	answered *answered
}

// config is how the queue stood before an attempt.
type config struct {
	receiver  *Receiver
	limiter   *rate.Limiter
	forgotten bool
	usable    bool
	changed   <-chan struct{}
}

func (w *worker) run() {
	for {
		w.drain()
		if w.rest(w.queue) {
			return
		}
	}
}

// drain steps until there is nothing to do or Run ends. What was answered then is
// settled all the same.
func (w *worker) drain() {
	for w.work.Err() == nil {
		c := w.config()
		more, err := w.step(c)
		if err != nil {
			w.log.Error(err, "Reading or writing the outbox failed, trying again", "receiver", w.queue.key)
			w.pause(w.backoff.next(w.opts.MinBackoff, w.opts.MaxBackoff), nil)
		} else if !more {
			return
		}
	}
	if err := w.settle(); err != nil {
		w.log.Error(err, "A message that was answered could not be settled and will be sent again", "receiver", w.queue.key)
	}
}

// step deals with the oldest message. It reports whether there may be more to do;
// an error is the outbox's.
func (w *worker) step(c config) (more bool, err error) {
	if err := w.settle(); err != nil {
		return true, err
	}
	if c.forgotten {
		return false, w.dropAll()
	}
	frozen, waiting, err := w.expire()
	if err != nil || !waiting || !c.usable {
		return false, err
	}
	heldBack, ok := w.awaitLimit(c)
	if !ok {
		return true, nil
	}
	a, err := w.next(c, frozen, heldBack)
	if err == nil && a != nil {
		err = w.send(c, a)
	}
	return true, err
}

func (w *worker) config() config {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queue
	q.woken = false
	return config{
		receiver:  q.receiver,
		limiter:   q.limiter,
		forgotten: q.forgotten,
		usable:    q.usable(),
		changed:   q.changed,
	}
}

// awaitLimit waits until the rate limit lets one message pass. It reports whether
// that took time, and false if the receiver changed or Run ended meanwhile.
func (w *worker) awaitLimit(c config) (heldBack, ok bool) {
	if c.limiter == nil {
		return false, true
	}
	now := w.clock.Now()
	reservation := c.limiter.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay == 0 {
		return false, true
	}
	if !w.pause(delay, c.changed) {
		reservation.CancelAt(w.clock.Now())
		return true, false
	}
	return true, true
}

// pause reports whether it lasted as long as it was to: a change of the receiver
// and the end of Run cut it short.
func (w *worker) pause(d time.Duration, changed <-chan struct{}) bool {
	timer := w.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-changed:
		return false
	case <-w.work.Done():
		return false
	}
}

// dropAll empties the queue of a receiver that was deleted.
func (w *worker) dropAll() error {
	tally, err := w.outbox.DropReceiver(w.marking, w.queue.key)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.queue.forgotten = false
	w.mu.Unlock()
	w.dropped(tally, DropForgotten, "the receiver, or its namespace, was deleted")
	return nil
}

// dropped tells the observer of it, unless it was nothing.
func (w *worker) dropped(tally outbox.Counts, cause DropCause, text string) {
	if len(tally) > 0 {
		w.log.V(1).Info("Messages dropped", "receiver", w.queue.key, "cause", cause)
		w.observer.Dropped(w.queue.key, tally, cause, text)
	}
}

// requestContext bounds one attempt.
func (w *worker) requestContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.requests, w.opts.RequestTimeout)
}
