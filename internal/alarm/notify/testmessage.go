package notify

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Test is a test message that a user asked for.
type Test struct {
	// Value identifies the test. It is empty if the user asks for none.
	Value   string
	Message message.Message
}

// TestResult is the result of a test message.
type TestResult struct {
	// Value is Test.Value. It is empty if no test was sent.
	Value string
	// At is the time of the result.
	At time.Time
	// Failure is nil if the receiver accepted the message.
	Failure *SendError
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

// lastAttempt is the result of an attempt.
type lastAttempt struct {
	made    bool
	failure *SendError
}

// sendTest sends the test message that the user asked for, if this was not done before. It
// uses the rate limits of the receiver, and the CPU of its namespace for templates. A test that
// fails is not retried: the user sees the result. done is false if a change or the end of Run came
// first, or if the templates of the namespace cost too much. It must then be called again.
func (w *worker) sendTest(c config) (done bool) {
	if !c.usable || c.receiver.Test.Value == "" || c.receiver.Test.Value == c.tested {
		return true
	}
	if _, ok := w.awaitLimits(c); !ok {
		return false
	}
	place := w.inFlight.enter(c.receiver.Namespace)
	defer w.inFlight.leave(place)
	select {
	case <-place.granted:
	case <-c.current.Done():
		return false
	case <-w.work.Done():
		return false
	}
	rendered, ok := w.mayRender(c)
	if !ok {
		return false
	}
	body, err := w.render(c, c.receiver.Test.Message)
	rendered()
	if err == nil {
		err = w.postTest(c, body)
	}
	if w.interrupted(err) {
		return false
	}
	w.recordTest(c, err)
	return true
}

func (w *worker) postTest(c config, body []byte) error {
	ctx, cancel := w.requestContext(c)
	defer cancel()
	w.permission = nil
	return c.receiver.Notifier.Send(ctx, alarm.TestKey(c.receiver.UID, c.receiver.Test.Value), body)
}

// recordTest stores the result of a test, also if the receiver changed meanwhile. Otherwise
// it would get the test again.
func (w *worker) recordTest(c config, err error) {
	result := TestResult{Value: c.receiver.Test.Value, At: w.clock.Now()}
	if err != nil {
		result.Failure = asSendError(err).OfTest()
	}
	w.mu.Lock()
	w.queue.test, w.queue.tested = result, result.Value
	if w.unchanged(c) {
		w.queue.attempt = lastAttempt{true, result.Failure}
	}
	w.mu.Unlock()
	w.observer.Changed(w.queue.key)
}
