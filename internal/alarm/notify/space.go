package notify

import (
	"errors"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// errNoSpace is the failure of a receiver whose messages cannot be prepared.
var errNoSpace = &SendError{
	Class: Retry, Reason: v1alpha1.ReasonDeliveryFailing,
	Text: "messages wait, because those being sent to other receivers use up the space: " +
		"correct the receivers that are not Ready, or delete them",
}

// noteSpace records whether the message of the lane could not be prepared for lack of space,
// and returns the error. The log does not show it, because a tenant could fill the log.
func (w *worker) noteSpace(err error) error {
	w.lane.noSpace = errors.Is(err, outbox.ErrTooManyPrepared)
	w.showSpace()
	return err
}

// freeSpace records that no message waits for space, because none waits.
func (w *worker) freeSpace() {
	for _, l := range w.queue.lanes {
		l.noSpace = false
	}
	w.showSpace()
}

// showSpace updates what Dispatcher.Failure returns.
func (w *worker) showSpace() {
	noSpace := false
	for _, l := range w.queue.lanes {
		noSpace = noSpace || l.noSpace
	}
	w.mu.Lock()
	changed := w.queue.noSpace != noSpace
	w.queue.noSpace = noSpace
	w.mu.Unlock()
	if changed {
		w.observer.Changed(w.queue.key)
	}
}
