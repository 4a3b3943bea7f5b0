package notify

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// result is the final result of a message: delivered or dropped.
type result struct {
	attempt *outbox.Attempt
	// at is when the receiver accepted a delivered message.
	at time.Time
	// cause is empty if the message was delivered.
	cause DropCause
	text  string
	// lost is Threaded.Lost.
	lost string
}

func (r *result) delivery() Delivery {
	return Delivery{Kind: kindOf(r.attempt), Latency: max(r.at.Sub(r.attempt.Oldest), 0)}
}

// send makes one attempt and handles its result. Errors are those of the outbox.
func (w *worker) send(c config, a *outbox.Attempt) error {
	body, err := bodyOf(a, c.receiver.Notifier)
	if err != nil {
		w.log.Error(err, "A prepared message cannot be read", "receiver", w.queue.key)
		w.result = &result{attempt: a, cause: DropUnreadable, text: unreadableText}
		return nil
	}
	post, err := w.senderFor(c.receiver.Notifier, a)
	if err != nil {
		return err
	}
	ctx, cancel := w.requestContext()
	defer cancel()
	sent, err := post(ctx, a.Key, body)
	switch {
	case err == nil:
		if len(sent.Reference) <= MaxReference {
			a.Reference = sent.Reference
		}
		w.result = &result{attempt: a, at: w.clock.Now(), lost: sent.Lost}
		w.succeeded(c)
	case w.requests.Err() != nil:
		w.log.V(1).Info("Request canceled by the shutdown", "receiver", w.queue.key)
	default:
		w.failed(c, a, asSendError(err))
	}
	return nil
}

// senderFor returns the function that sends a message. It continues the message's
// group if the Notifier supports this.
func (w *worker) senderFor(n Notifier, a *outbox.Attempt) (func(context.Context, string, []byte) (Threaded, error), error) {
	threader, threads := n.(Threader)
	if !threads || a.Group == "" {
		return func(ctx context.Context, key string, body []byte) (Threaded, error) {
			return Threaded{}, n.Send(ctx, key, body)
		}, nil
	}
	reference, err := w.outbox.Reference(w.storage, a.Receiver, a.Group)
	return func(ctx context.Context, key string, body []byte) (Threaded, error) {
		return threader.SendInGroup(ctx, key, body, reference)
	}, err
}

func bodyOf(a *outbox.Attempt, n Notifier) ([]byte, error) {
	b, err := loadBody(a)
	if err != nil {
		return nil, err
	}
	return b.bodyFor(n)
}

// acknowledge stores the result of the last message in the outbox and then notifies
// the observer. The worker sends nothing else until it succeeds.
func (w *worker) acknowledge() error {
	if w.result == nil {
		return nil
	}
	w.result.attempt.GivenUp = w.result.cause != ""
	counts, err := w.outbox.Acknowledge(w.storage, w.result.attempt)
	if err != nil {
		return err
	}
	done := w.result
	w.result = nil
	switch {
	case done.cause != "":
		w.dropped(counts, done.cause, done.text)
	case len(counts) > 0:
		w.observer.Delivered(w.queue.key, done.delivery(), counts)
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
	if w.unchanged(c) {
		w.queue.failure = nil
	}
	w.mu.Unlock()
	if recovered {
		w.observer.Recovered(w.queue.key)
	}
}

func (w *worker) failed(c config, a *outbox.Attempt, e *SendError) {
	w.recordFailure(c, e)
	switch e.Class {
	case Reject:
		w.backoff.reset()
		w.result = &result{attempt: a, cause: DropRejected, text: e.Text}
	case Retry:
		w.pause(w.backoff.afterFailure(e, w.opts.MinBackoff, w.opts.MaxBackoff), c.changed)
	case Park: // the next step finds the queue parked
	}
}

// recordFailure stores the failure and notifies the observer of a new one. It ignores
// the failure if the receiver changed during the attempt.
func (w *worker) recordFailure(c config, e *SendError) {
	w.mu.Lock()
	if !w.unchanged(c) {
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

// unchanged reports whether the receiver is the same as before the attempt. The caller
// holds w.mu.
func (w *worker) unchanged(c config) bool {
	return w.queue.receiver != nil && w.queue.receiver == c.receiver
}
