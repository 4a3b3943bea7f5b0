package notify

import (
	"context"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// send makes one attempt and handles its result. It returns how long to pause. Errors are
// those of the outbox.
func (w *worker) send(c config, r *request) (pause time.Duration, err error) {
	post, err := w.senderFor(c.receiver.Notifier, r)
	if err != nil {
		return 0, err
	}
	ctx, cancel := w.requestContext(c)
	defer cancel()
	for _, g := range r.Groups {
		w.queue.repeats.await(ctx, g.Group)
	}
	sent, err := post(ctx)
	if err == nil && r.Kind == KindGroup && len(sent.Reference) <= MaxReference {
		r.Groups[0].Reference = sent.Reference
	}
	return w.handle(c, r, sent.Lost, err)
}

// handle handles the result of an attempt. lost is Threaded.Lost.
func (w *worker) handle(c config, r *request, lost string, err error) (pause time.Duration, _ error) {
	switch {
	case err == nil:
		w.result = &result{request: r, at: w.clock.Now(), lost: lost}
		w.succeeded(c, r)
	case w.interrupted(err):
		w.log.V(1).Info("Request ended by the shutdown or a change", "receiver", w.queue.key)
	default:
		return w.failed(c, r, asSendError(err))
	}
	return 0, nil
}

// interrupted reports whether an attempt failed because of the shutdown or a change.
func (w *worker) interrupted(err error) bool {
	return err != nil && (w.requests.Err() != nil || errors.Is(err, ErrInterrupted))
}

// sender makes one attempt to send a message or a batch.
type sender func(ctx context.Context) (Threaded, error)

// maxThreads is the number of open threads that the groups of one budget, which is that
// of a namespace, can have at a receiver. Each needs a message that resolves it, for which
// others wait. Further groups have messages without a thread.
const maxThreads = 100

// senderFor returns the function that sends a message. It continues the message's
// group if the Notifier supports this.
func (w *worker) senderFor(n Notifier, r *request) (sender, error) {
	body := r.Messages[0].Body
	alone := func(ctx context.Context) (Threaded, error) { return Threaded{}, n.Send(ctx, r.Key, body) }
	threader, threads := n.(Threader)
	switch {
	case r.Kind == KindBatch:
		return func(ctx context.Context) (Threaded, error) {
			return Threaded{}, n.(Batcher).SendBatch(ctx, r.Key, r.Messages)
		}, nil
	case !threads || r.Kind != KindGroup:
		return alone, nil
	}
	group := r.Groups[0].Group
	reference, err := w.outbox.Reference(w.storage, r.Receiver, group)
	if err != nil {
		return nil, err
	}
	if reference == "" {
		if open, err := w.outbox.Threads(w.storage, r.Receiver, group); err != nil || open >= maxThreads {
			return alone, err
		}
	}
	return func(ctx context.Context) (Threaded, error) { return threader.SendInGroup(ctx, r.Key, body, reference) }, nil
}

// finish stores the result of the last message in the outbox and then notifies
// the observer. The worker sends nothing else until it succeeds.
func (w *worker) finish() error {
	if w.result == nil {
		return nil
	}
	counts, err := w.outbox.Finish(w.storage, w.result.request.Attempt, w.result.outcome())
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
	return w.rejoin(done.request.Lane)
}

func (w *worker) succeeded(c config, r *request) {
	w.backoff.reset()
	w.laneSucceeded(r)
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
func (w *worker) failed(c config, r *request, e *SendError) (pause time.Duration, err error) {
	if e.Class == Reject && (r.Kind == KindBatch || r.combines()) {
		w.observer.BatchRefused(w.queue.key, int64(len(r.Entries)), e)
		return 0, w.divide(r)
	}
	if e.Class != Reject && r.Lane != outbox.MainLane {
		if w.failedAside(r); w.accepts() {
			w.noteFailure(r, e, w.lane.next)
			return 0, nil
		}
	}
	switch e.Class {
	case Retry:
		pause = w.backoff.afterFailure(e, w.opts.MinBackoff, w.opts.MaxBackoff)
	case Stop:
		pause = w.backoff.afterFailure(e, minStopped, maxStopped)
	default:
		w.backoff.reset()
		w.result = &result{request: r, cause: DropRejected, text: e.Explain()}
	}
	w.recordFailure(c, e, pause)
	w.noteFailure(r, e, alarm.Later(w.clock.Now().Add(pause), w.lane.next))
	if e.Class != Reject && r.Lane == outbox.MainLane {
		err = w.laneFailed(r)
	}
	return pause, err
}

// noteFailure stores a failure for `bongsu-operator pending`, unless the message is dropped.
func (w *worker) noteFailure(r *request, e *SendError, next time.Time) {
	if w.result != nil {
		return
	}
	if err := w.outbox.NoteFailure(w.storage, r.Attempt, outbox.Failure{Error: e.Text, Next: next}); err != nil {
		w.log.V(1).Info("The failure of a message could not be stored", "receiver", w.queue.key, "error", err.Error())
	}
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
