package notify

import (
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Failure returns the error of the receiver's last attempt with its current
// configuration. If the attempt succeeded or there was none, it returns why messages cannot
// be prepared or sent again, or nil.
func (d *Dispatcher) Failure(key string) *SendError {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.queues[d.receiverOf(key)]
	switch {
	case !ok:
		return nil
	case q.failure == nil && q.noSpace:
		return errNoSpace
	case q.failure == nil:
		return q.repeats.failure
	default:
		return q.failure
	}
}

// errNoSpace is the failure of a receiver whose messages cannot be prepared.
var errNoSpace = &SendError{
	Class: Retry, Reason: v1alpha1.ReasonDeliveryFailing,
	Text: "messages wait, because those being sent to other receivers use up the space: " +
		"correct the receivers that are not Ready, or delete them",
}

// NextAttempt returns when the Dispatcher tries again to send to a receiver that fails. It
// returns the zero time if the pause is shorter than 30 seconds, or if the receiver does not
// fail. The attempt can come earlier, after a change of the receiver, and it can come later
// because of rate limits.
func (d *Dispatcher) NextAttempt(key string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok {
		return q.next
	}
	return time.Time{}
}

// SetAside returns the number of messages that are set aside, because a receiver that accepts
// others does not accept them. It is 0 while the receiver accepts nothing.
func (d *Dispatcher) SetAside(key string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok && q.failure == nil {
		return q.aside
	}
	return 0
}

// SetAsideByAll returns the sum of SetAside of all receivers.
func (d *Dispatcher) SetAsideByAll() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		if q.failure == nil {
			n += q.aside
		}
	}
	return n
}

// FailingReceivers returns the number of receivers whose last attempt failed and is retried.
func (d *Dispatcher) FailingReceivers() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		if q.failure != nil && q.failure.Class != Reject {
			n++
		}
	}
	return n
}

// Dropped returns the last value of Receiver.Drop that was handled.
func (d *Dispatcher) Dropped(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok {
		return q.dropped
	}
	return ""
}

// LastTest returns the result of the last test message of this process.
func (d *Dispatcher) LastTest(key string) TestResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok {
		return q.test
	}
	return TestResult{}
}

// LastAttempt returns the error of the last attempt since the receiver changed, which can be
// that of a test message. made is false if there was no attempt.
func (d *Dispatcher) LastAttempt(key string) (failure *SendError, made bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok {
		return q.attempt.failure, q.attempt.made
	}
	return nil, false
}

// IsUntried reports whether messages wait, and there was no attempt since the receiver changed or the
// operator started. Whether the receiver accepts messages is then not known.
func (d *Dispatcher) IsUntried(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.receiverOf(key)
	q, ok := d.queues[id]
	return ok && !q.attempt.made && d.outbox.Backlog(id).Entries > 0
}
