package notify

import (
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// worker is the goroutine of one queue. It sends the pending messages one after the
// other and ends when it cannot send any more.
type worker struct {
	*Dispatcher
	*lifetime
	queue   *queue
	backoff backoff
	// lane is the lane of the message that is sent. moved counts the messages that got a lane
	// of their own since the receiver last accepted one.
	lane  *lane
	moved int
	// permission is what the rate limits permit for the next request, nil if nothing.
	permission *permission
	// result is the result of a message until it is stored in the outbox.
	result *result
}

// config is a copy of the queue's state before an attempt.
type config struct {
	receiver *Receiver
	limits   []*rate.Limiter
	deleted  bool
	usable   bool
	dropped  string
	tested   string
	current  context.Context
}

func (w *worker) config() config {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queue
	q.woken = false
	if q.changed {
		q.changed = false
		w.forgetFailures()
	}
	return config{
		receiver: q.receiver,
		limits:   q.limits,
		deleted:  q.deleted,
		usable:   q.usable(),
		dropped:  q.dropped,
		tested:   q.tested,
		current:  q.current,
	}
}

// permission is what the rate limits have permitted, for one request that was not made yet. heldBack
// reports whether it had to wait.
type permission struct {
	limits   []*rate.Limiter
	heldBack bool
}

// awaitLimits waits until all rate limits permit a message, and the CPU that it may need. heldBack
// reports whether it had to wait. ok is false if the receiver changed or Run ended first. A
// permission lasts until a request uses it: a wait for CPU must not use up another one.
func (w *worker) awaitLimits(c config) (heldBack, ok bool) {
	var reservations []*rate.Reservation
	var delay time.Duration
	p := w.permission
	if p == nil || !slices.Equal(p.limits, c.limits) {
		p = &permission{limits: c.limits}
		reservations, delay = reserve(c.limits, w.clock.Now())
	}
	if delay = max(delay, w.computing.delay(c.receiver, w.clock.Now())); delay > 0 {
		p.heldBack = true
		if !w.pause(delay, c.current.Done()) {
			cancelAll(reservations, w.clock.Now())
			return true, false
		}
	}
	w.permission = p
	return p.heldBack, true
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

// dropped notifies the observer, unless counts is empty.
func (w *worker) dropped(counts outbox.Counts, cause DropCause, text string) {
	if len(counts) > 0 {
		w.log.V(1).Info("Messages dropped", "receiver", w.queue.key, "cause", cause)
		w.observer.Dropped(w.queue.key, counts, cause, text)
	}
}

// requestContext returns the context of one attempt. The Notifier limits its time.
func (w *worker) requestContext(c config) (context.Context, context.CancelFunc) {
	early, cancel := context.WithCancel(c.current)
	stop := context.AfterFunc(w.work, cancel)
	ctx := w.computing.withTurns(WithEarly(w.requests, early), c.receiver, w.clock)
	return ctx, func() { stop(); cancel() }
}
