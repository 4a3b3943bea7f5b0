package notify

import (
	"github.com/bongsu-io/bongsu/internal/alarm"
)

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
