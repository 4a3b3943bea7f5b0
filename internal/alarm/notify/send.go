package notify

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// answered is a message whose fate is known: delivered, or given up.
type answered struct {
	attempt *outbox.Attempt
	// at is when the receiver accepted it, if it was delivered.
	at time.Time
	// cause is empty if it was delivered.
	cause DropCause
	text  string
	// lost is Threaded.Lost.
	lost string
}

func (a *answered) delivery() Delivery {
	return Delivery{Kind: kindOf(a.attempt), Latency: max(a.at.Sub(a.attempt.Oldest), 0)}
}

// send makes one attempt and deals with its outcome; an error is the outbox's.
func (w *worker) send(c config, a *outbox.Attempt) error {
	body, err := bodyOf(a, c.receiver.Notifier)
	if err != nil {
		w.log.Error(err, "A frozen message cannot be read", "receiver", w.queue.key)
		w.answered = &answered{attempt: a, cause: DropUnreadable, text: unreadableText}
		return nil
	}
	post, err := w.wayOf(c.receiver.Notifier, a)
	if err != nil {
		return err
	}
	ctx, cancel := w.requestContext()
	defer cancel()
	done, err := post(ctx, a.Key, body)
	switch {
	case err == nil:
		if len(done.Reference) <= MaxReference {
			a.Reference = done.Reference
		}
		w.answered = &answered{attempt: a, at: w.clock.Now(), lost: done.Lost}
		w.succeeded(c)
	case w.requests.Err() != nil:
		w.log.V(1).Info("Request abandoned at the end", "receiver", w.queue.key)
	default:
		w.failed(c, a, asSendError(err))
	}
	return nil
}

// wayOf returns how to send a message: as one of its group's where the Notifier knows
// what to do with these.
func (w *worker) wayOf(n Notifier, a *outbox.Attempt) (func(context.Context, string, []byte) (Threaded, error), error) {
	threader, threads := n.(Threader)
	if !threads || a.Group == "" {
		return func(ctx context.Context, key string, body []byte) (Threaded, error) {
			return Threaded{}, n.Send(ctx, key, body)
		}, nil
	}
	reference, err := w.outbox.Reference(w.marking, a.Receiver, a.Group)
	return func(ctx context.Context, key string, body []byte) (Threaded, error) {
		return threader.SendInGroup(ctx, key, body, reference)
	}, err
}

func bodyOf(a *outbox.Attempt, n Notifier) ([]byte, error) {
	f, err := thaw(a)
	if err != nil {
		return nil, err
	}
	return f.bodyFor(n)
}

// settle puts the fate of what was answered into the ledger and, once it is
// there, tells the observer. Until it succeeds nothing else is sent.
func (w *worker) settle() error {
	if w.answered == nil {
		return nil
	}
	w.answered.attempt.GivenUp = w.answered.cause != ""
	tally, err := w.outbox.Acknowledge(w.marking, w.answered.attempt)
	if err != nil {
		return err
	}
	done := w.answered
	w.answered = nil
	switch {
	case done.cause != "":
		w.dropped(tally, done.cause, done.text)
	case len(tally) > 0:
		w.observer.Delivered(w.queue.key, done.delivery(), tally)
	}
	if done.lost != "" {
		w.observer.ThreadLost(w.queue.key, done.lost)
	}
	return nil
}

func (w *worker) succeeded(c config) {
	w.backoff.reset()
	w.mu.Lock()
	recovered := w.queue.failing
	w.queue.failing = false
	if w.current(c) {
		w.queue.failure = nil
	}
	w.mu.Unlock()
	if recovered {
		w.observer.Recovered(w.queue.key)
	}
}

func (w *worker) failed(c config, a *outbox.Attempt, e *SendError) {
	w.note(c, e)
	switch e.Class {
	case Reject:
		w.backoff.reset()
		w.answered = &answered{attempt: a, cause: DropRejected, text: e.Text}
	case Retry:
		w.pause(w.backoff.afterFailure(e, w.opts.MinBackoff, w.opts.MaxBackoff), c.changed)
	case Park: // the next look at the queue finds it parked
	}
}

// note keeps the failure and tells the observer if it is a new one. Of a receiver
// that was changed during the attempt it says nothing.
func (w *worker) note(c config, e *SendError) {
	w.mu.Lock()
	if !w.current(c) {
		w.mu.Unlock()
		return
	}
	former := w.queue.failure
	w.queue.failure = e
	w.queue.failing = true
	w.queue.parked = e.Class == Park
	w.mu.Unlock()
	if former == nil || !former.same(e) {
		w.log.V(1).Info("Delivery fails", "receiver", w.queue.key, "class", e.Class.String(), "reason", e.Reason)
		w.observer.Failing(w.queue.key, e)
	}
}

// current reports whether the queue is as it was before the attempt. w.mu is held.
func (w *worker) current(c config) bool {
	return w.queue.receiver != nil && w.queue.receiver == c.receiver
}
