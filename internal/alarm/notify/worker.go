package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm"
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
			if !errors.Is(err, outbox.ErrTooManyPrepared) { // a tenant could fill the log with it
				w.log.Error(err, "Reading or writing the outbox failed, retrying", "receiver", w.queue.key)
			}
			w.pause(w.backoff.next(w.opts.MinBackoff, w.opts.MaxBackoff), nil)
		} else if !more {
			return
		}
	}
	if err := w.finish(); err != nil {
		w.log.Error(err, "The result of a message could not be stored, the message will be sent again", "receiver", w.queue.key)
	}
}

// step handles the oldest message. It reports whether there may be more to do. Errors
// are those of the outbox.
func (w *worker) step(c config) (more bool, err error) {
	if err := w.finish(); err != nil {
		return true, err
	}
	if c.deleted {
		return false, w.dropAll()
	}
	if err := w.loadLanes(); err != nil {
		return true, err
	}
	if done, err := w.dropByUser(c); !done || err != nil {
		return true, err
	}
	if !w.sendTest(c) {
		return true, nil
	}
	if w.lane, err = w.nextLane(c); err != nil {
		return false, err
	}
	if w.lane == nil {
		w.freeSpace()
		return false, nil
	}
	heldBack, ok := w.awaitLimits(c)
	if !ok {
		return true, nil
	}
	pause, err := w.attempt(c, heldBack)
	if err == nil && pause > 0 {
		w.pause(pause, c.current.Done())
	}
	return true, err
}

// awaitLease is the pause while another process may be the leader. This one ends soon, or leads on.
const awaitLease = time.Second

// attempt sends the next message as soon as the receiver's namespace may make another
// request. It returns how long to pause if the receiver did not accept the message. A body
// is read only after the wait, so that the memory of those that wait is small.
func (w *worker) attempt(c config, heldBack bool) (time.Duration, error) {
	place := w.inFlight.enter(c.receiver.Namespace)
	defer w.inFlight.leave(place)
	select {
	case <-place.granted:
	case <-c.current.Done():
		return 0, nil
	case <-w.work.Done():
		return 0, nil
	}
	if !w.opts.MayLead() {
		return awaitLease, nil
	}
	w.lane.former, w.lane.tried = w.lane.tried, w.clock.Now() // also if no space is left for a prepared message: others can free it
	done, ok := w.mayRender(c)
	if !ok {
		return 0, nil
	}
	r, err := w.next(c, heldBack)
	done()
	if err = w.noteSpace(err); err != nil || r == nil {
		return 0, err
	}
	w.permission = nil
	return w.send(c, r)
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

// afterStart is how long nothing is dropped after a start. No operator may have run for days, or
// the clock may be wrong until it is synchronized.
const afterStart = 10 * time.Minute

// expire drops messages of a lane that exceed the maximum age, even if the receiver is
// unusable. It reports whether any message is left.
func (w *worker) expire(lane int64) (waiting bool, err error) {
	before := alarm.Now(w.clock, w.began).Add(-w.opts.MaxAge)
	head, err := w.outbox.Head(w.storage, w.queue.key, lane)
	if err != nil || head == nil {
		return false, err
	}
	if !head.Oldest.Before(before) || w.clock.Since(w.began) < min(afterStart, w.opts.MaxAge) {
		return true, nil
	}
	if head.Prepared {
		if done, err := w.expirePrepared(lane); !done || err != nil {
			return false, err
		}
	}
	counts, err := w.outbox.DropOlderThan(w.storage, w.queue.key, lane, before)
	if err != nil {
		return false, err
	}
	w.dropped(counts, DropExpired, w.expiredText())
	head, err = w.outbox.Head(w.storage, w.queue.key, lane)
	return head != nil, err
}

// expirePrepared drops the prepared message of a lane. If it has several entries, these are pending
// again instead, because the newer ones are not too old. done is false if there is none.
func (w *worker) expirePrepared(lane int64) (done bool, err error) {
	prepared, err := w.outbox.Prepared(w.storage, w.queue.key, lane)
	switch {
	case prepared == nil || err != nil:
		return false, err
	case len(prepared.Entries) > 1:
		_, err := w.outbox.Discard(w.storage, prepared)
		return true, err
	}
	w.result = &result{request: &request{Attempt: prepared}, cause: DropExpired, text: w.expiredText()}
	return true, w.finish()
}

func (w *worker) expiredText() string {
	return fmt.Sprintf("not delivered within %s: check the receiver's Ready condition", w.opts.MaxAge.Round(time.Second))
}

const forgottenText = "the receiver, or its namespace, was deleted"

// dropAll drops the messages of a deleted receiver.
func (w *worker) dropAll() error {
	counts, err := w.outbox.DropReceiver(w.storage, w.queue.key)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.queue.deleted, w.queue.lanes = false, nil
	w.mu.Unlock()
	w.dropped(counts, DropForgotten, forgottenText)
	return nil
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
