package notify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// maxRetryAfter limits the pause that a receiver may ask for.
const maxRetryAfter = 5 * time.Minute

// worker is the goroutine of one queue. It sends the pending messages one after the
// other and ends when it cannot send any more.
type worker struct {
	*Dispatcher
	*lifetime
	queue   *queue
	backoff backoff
	// result is the result of a message until it is stored in the outbox.
	result *result
}

// config is a copy of the queue's state before an attempt.
type config struct {
	receiver *Receiver
	limiter  *rate.Limiter
	deleted  bool
	usable   bool
	changed  <-chan struct{}
}

func (w *worker) run() {
	for {
		w.drain()
		if w.stopWorker(w.queue) {
			return
		}
	}
}

// drain runs steps until there is nothing to do or Run ends. It then still stores the
// result of the last message.
func (w *worker) drain() {
	for w.work.Err() == nil {
		c := w.config()
		more, err := w.step(c)
		if err != nil {
			w.log.Error(err, "Reading or writing the outbox failed, retrying", "receiver", w.queue.key)
			w.pause(w.backoff.next(w.opts.MinBackoff, w.opts.MaxBackoff), nil)
		} else if !more {
			return
		}
	}
	if err := w.acknowledge(); err != nil {
		w.log.Error(err, "The result of a message could not be stored, the message will be sent again", "receiver", w.queue.key)
	}
}

// step handles the oldest message. It reports whether there may be more to do. Errors
// are those of the outbox.
func (w *worker) step(c config) (more bool, err error) {
	if err := w.acknowledge(); err != nil {
		return true, err
	}
	if c.deleted {
		return false, w.dropAll()
	}
	prepared, waiting, err := w.expire()
	if err != nil || !waiting || !c.usable {
		return false, err
	}
	heldBack, ok := w.awaitLimit(c)
	if !ok {
		return true, nil
	}
	a, err := w.next(c, prepared, heldBack)
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
		receiver: q.receiver,
		limiter:  q.limiter,
		deleted:  q.deleted,
		usable:   q.usable(),
		changed:  q.changed,
	}
}

// awaitLimit waits until the rate limit permits a message. heldBack reports whether it
// had to wait. ok is false if the receiver changed or Run ended first.
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

// pause reports whether it lasted for all of d. A change of the receiver and the end of
// Run end it early.
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

// expire drops messages that exceed the maximum age, even if the receiver is unusable.
// It returns the prepared message, if any, and whether any message is left.
func (w *worker) expire() (prepared *outbox.Attempt, waiting bool, err error) {
	before := w.clock.Now().Add(-w.opts.MaxAge)
	prepared, err = w.outbox.Prepared(w.storage, w.queue.key)
	if err != nil {
		return nil, false, err
	}
	if prepared != nil && newestOf(prepared).Before(before) {
		w.result = &result{attempt: prepared, cause: DropExpired, text: w.expiredText()}
		prepared, err = nil, w.acknowledge()
	}
	if prepared != nil || err != nil {
		return prepared, true, err
	}
	waiting, err = w.expirePending(before)
	return nil, waiting, err
}

// newestOf returns the time of the newest entry in a prepared message.
func newestOf(a *outbox.Attempt) time.Time {
	if b, err := loadBody(a); err == nil {
		return b.Newest
	}
	return a.Oldest
}

func (w *worker) expirePending(before time.Time) (waiting bool, err error) {
	oldest, err := w.outbox.Pending(w.storage, w.queue.key, 0, 1)
	if err != nil || len(oldest) == 0 {
		return false, err
	}
	if !oldest[0].CreatedAt.Before(before) {
		return true, nil
	}
	counts, err := w.outbox.DropOlderThan(w.storage, w.queue.key, before)
	if err != nil {
		return false, err
	}
	w.dropped(counts, DropExpired, w.expiredText())
	oldest, err = w.outbox.Pending(w.storage, w.queue.key, 0, 1)
	return len(oldest) > 0, err
}

func (w *worker) expiredText() string {
	return fmt.Sprintf("not delivered within %s: check the receiver's Ready condition", w.opts.MaxAge.Round(time.Second))
}

// dropAll drops the messages of a deleted receiver.
func (w *worker) dropAll() error {
	counts, err := w.outbox.DropReceiver(w.storage, w.queue.key)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.queue.deleted = false
	w.mu.Unlock()
	w.dropped(counts, DropForgotten, "the receiver, or its namespace, was deleted")
	return nil
}

// dropped notifies the observer, unless counts is empty.
func (w *worker) dropped(counts outbox.Counts, cause DropCause, text string) {
	if len(counts) > 0 {
		w.log.V(1).Info("Messages dropped", "receiver", w.queue.key, "cause", cause)
		w.observer.Dropped(w.queue.key, counts, cause, text)
	}
}

// requestContext returns the context of one attempt.
func (w *worker) requestContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.requests, w.opts.RequestTimeout)
}

// backoff counts consecutive failures.
type backoff struct {
	failures int
}

func (b *backoff) reset() { b.failures = 0 }

// next returns the pause after one more failure. The pause is random between least and
// a bound that doubles with each failure up to most. Receivers that failed together
// are therefore not retried together.
func (b *backoff) next(least, most time.Duration) time.Duration {
	bound := least
	for range b.failures + 1 {
		if bound = min(2*bound, most); bound == most {
			break
		}
	}
	b.failures++
	return least + rand.N(max(bound-least, 0)+1)
}

// afterFailure returns the pause after a failed attempt. It is at least as long as the
// receiver asked for, up to maxRetryAfter.
func (b *backoff) afterFailure(e *SendError, least, most time.Duration) time.Duration {
	return max(b.next(least, most), min(e.RetryAfter, maxRetryAfter))
}
