package notify

import (
	"context"
	"errors"
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
	d := Delivery{Kind: kindOf(r.attempt), Messages: 1, Latency: max(r.at.Sub(r.attempt.Oldest), 0)}
	if r.attempt.Batch {
		d.Messages = r.attempt.Entries
	}
	return d
}

// send makes one attempt and handles its result. It returns how long to pause. Errors are
// those of the outbox.
func (w *worker) send(c config, a *outbox.Attempt) (pause time.Duration, err error) {
	if a.Batch {
		return w.sendBatch(c, a)
	}
	prepared, body, err := w.bodyOf(c, a)
	if errors.Is(err, ErrInterrupted) {
		return 0, nil
	}
	if err != nil {
		w.log.Error(err, "A prepared message cannot be read", "receiver", w.queue.key)
		w.result = &result{attempt: a, cause: DropUnreadable, text: unreadableText}
		return 0, nil
	}
	a.Digest = prepared.Digest
	post, err := w.senderFor(c.receiver.Notifier, a)
	if err != nil {
		return 0, err
	}
	ctx, cancel := w.requestContext(c)
	defer cancel()
	w.queue.repeats.await(ctx, a.Group)
	sent, err := post(ctx, a.Key, body)
	if err == nil {
		if len(sent.Reference) <= MaxReference {
			a.Reference = sent.Reference
		}
		a.Resolves, a.Remember = prepared.Resolves, prepared.remember(c.receiver.Notifier)
	}
	return w.handle(c, a, sent.Lost, err)
}

// handle handles the result of an attempt. lost is Threaded.Lost.
func (w *worker) handle(c config, a *outbox.Attempt, lost string, err error) (pause time.Duration, _ error) {
	switch {
	case err == nil:
		w.result = &result{attempt: a, at: w.clock.Now(), lost: lost}
		w.succeeded(c, a)
	case w.interrupted(err):
		w.log.V(1).Info("Request ended by the shutdown or a change", "receiver", w.queue.key)
	default:
		return w.failed(c, a, asSendError(err))
	}
	return 0, nil
}

// interrupted reports whether an attempt failed because of the shutdown or a change.
func (w *worker) interrupted(err error) bool {
	return err != nil && (w.requests.Err() != nil || errors.Is(err, ErrInterrupted))
}

// sender sends the body of a message with its key.
type sender func(ctx context.Context, key string, body []byte) (Threaded, error)

// senderFor returns the function that sends a message. It continues the message's
// group if the Notifier supports this.
func (w *worker) senderFor(n Notifier, a *outbox.Attempt) (sender, error) {
	alone := func(ctx context.Context, key string, body []byte) (Threaded, error) {
		return Threaded{}, n.Send(ctx, key, body)
	}
	threader, threads := n.(Threader)
	if !threads || a.Group == "" {
		return alone, nil
	}
	reference, err := w.outbox.Reference(w.storage, a.Receiver, a.Group)
	if err != nil {
		return nil, err
	}
	if reference == "" {
		if open, err := w.outbox.Threads(w.storage, a.Receiver, a.Group); err != nil || open >= maxThreads {
			return alone, err
		}
	}
	return func(ctx context.Context, key string, body []byte) (Threaded, error) {
		return threader.SendInGroup(ctx, key, body, reference)
	}, nil
}

func (w *worker) bodyOf(c config, a *outbox.Attempt) (*preparedBody, []byte, error) {
	b, err := loadBody(a)
	if err != nil {
		return nil, nil, err
	}
	body, err := w.bodyFor(c, b)
	return b, body, err
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
	return w.rejoin(done.attempt.Lane)
}

func (w *worker) succeeded(c config, a *outbox.Attempt) {
	w.backoff.reset()
	w.laneSucceeded(a)
	w.mu.Lock()
	recovered := w.queue.failing
	w.queue.failing = false
	if w.unchanged(c) {
		w.queue.failure, w.queue.next = nil, time.Time{}
		w.queue.attempt = lastAttempt{made: true}
		w.queue.repeats.forget()
	}
	w.mu.Unlock()
	if recovered {
		w.observer.Recovered(w.queue.key)
	}
}

// failed handles a failed attempt, and returns how long to pause.
func (w *worker) failed(c config, a *outbox.Attempt, e *SendError) (pause time.Duration, err error) {
	if e.Class == Reject && (a.Batch || len(a.Picked) > 0 && !a.Digest) {
		w.observer.BatchRefused(w.queue.key, a.Entries, e)
		return 0, w.divide(a)
	}
	if e.Class != Reject && a.Lane != outbox.MainLane {
		if w.failedAside(a); w.accepts() {
			w.noteFailure(a, e, w.lane.next)
			return 0, nil
		}
	}
	switch e.Class {
	case Retry:
		pause = w.backoff.afterFailure(e, w.opts.MinBackoff, w.opts.MaxBackoff)
	case Park:
		pause = w.backoff.afterFailure(e, minParked, maxParked)
	default:
		w.backoff.reset()
		w.result = &result{attempt: a, cause: DropRejected, text: e.Explain()}
	}
	w.recordFailure(c, e, pause)
	w.noteFailure(a, e, latest(w.clock.Now().Add(pause), w.lane.next))
	if e.Class != Reject && a.Lane == outbox.MainLane {
		err = w.laneFailed(a)
	}
	return pause, err
}

// noteFailure stores a failure for `bongsu-operator pending`, unless the message is dropped.
func (w *worker) noteFailure(a *outbox.Attempt, e *SendError, next time.Time) {
	if w.result != nil {
		return
	}
	if err := w.outbox.NoteFailure(w.storage, a, outbox.Failure{Error: e.Text, Next: next}); err != nil {
		w.log.V(1).Info("The failure of a message could not be stored", "receiver", w.queue.key, "error", err.Error())
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// recordFailure stores the failure and the time of the next attempt. It notifies the
// observer of new ones. It ignores the failure if the receiver changed during the attempt.
func (w *worker) recordFailure(c config, e *SendError, pause time.Duration) {
	var next time.Time
	if pause >= shownPause {
		next = w.clock.Now().Add(pause)
	}
	w.mu.Lock()
	if !w.unchanged(c) {
		w.mu.Unlock()
		return
	}
	former, formerNext := w.queue.failure, w.queue.next
	w.queue.failure, w.queue.next = e, next
	w.queue.attempt = lastAttempt{true, e}
	w.queue.failing = true
	w.mu.Unlock()
	switch {
	case former == nil || !former.same(e):
		w.log.V(1).Info("Delivery fails", "receiver", w.queue.key, "class", e.Class.String(), "reason", e.Reason, "answer", e.Answer)
		w.observer.Failing(w.queue.key, e)
	case !formerNext.Equal(next):
		w.observer.Changed(w.queue.key)
	}
}

// unchanged reports whether the receiver is the same as before the attempt. The caller
// holds w.mu.
func (w *worker) unchanged(c config) bool {
	return w.queue.receiver != nil && w.queue.receiver == c.receiver
}
