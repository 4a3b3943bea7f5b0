package notify

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Repeater is a Notifier whose receiver forgets the message of a group, unless it gets it
// again. An example is Alertmanager, where each alert has an end.
type Repeater interface {
	Notifier
	// RepeatEvery returns how long after its last message an open group gets it again.
	RepeatEvery() time.Duration
	// SendAgain makes one attempt to send the last messages of open groups again, all in one
	// request. The message of a group that ended without a resolution is resolved. It returns
	// the errors of Send.
	SendAgain(ctx context.Context, messages []message.Message) error
}

// Limits of a request that repeats messages.
const (
	maxRepeated      = 100
	maxRepeatedBytes = 256 << 10
)

// maxRefused limits how often the messages of a refused request are divided.
const maxRefused = 32

// repeats is what a queue sends again. The Dispatcher's mutex guards the first fields.
type repeats struct {
	// running means that a goroutine sends. next is the earliest time of the next request, and
	// failure the error of the last one with the current configuration.
	running bool
	next    time.Time
	failure *SendError
	// refused is how long a refusal counts as failure, until the messages were sent once more.
	refused time.Time
	// backoff is used by that goroutine only.
	backoff backoff

	mu sync.Mutex // guards the fields below
	// groups are those in the request in flight, which ends when done is closed.
	groups []string
	done   chan struct{}
}

// forget forgets a failure. The caller holds the Dispatcher's mutex.
func (r *repeats) forget() { r.failure, r.next, r.refused = nil, time.Time{}, time.Time{} }

// orRefused returns the failure after a request. After a success, this is a former refusal that
// still counts. The caller holds the Dispatcher's mutex.
func (r *repeats) orRefused(e *SendError, now time.Time, every time.Duration) *SendError {
	switch {
	case e == nil && now.Before(r.refused):
		return r.failure
	case e != nil && e.Class == Reject:
		r.refused = now.Add(every + 2*repeatTick)
	}
	return e
}

// await returns when the last message of a group is not being sent again, or when ctx ends.
// Otherwise it could arrive after the message that resolves the group.
func (r *repeats) await(ctx context.Context, group string) {
	r.mu.Lock()
	done, inFlight := r.done, slices.Contains(r.groups, group)
	r.mu.Unlock()
	if !inFlight {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// begin reads what to send again. Messages of these groups then wait in await until end. Those
// before are in the outbox, which returns nothing of their groups.
func (r *repeats) begin(read func() ([]outbox.Repeated, error)) ([]outbox.Repeated, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := read()
	for i := range all {
		r.groups = append(r.groups, all[i].Group)
	}
	r.done = make(chan struct{})
	return all, err
}

func (r *repeats) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups = nil
	close(r.done)
}

// repeatUntil regularly sends messages of open groups again.
func (d *Dispatcher) repeatUntil(done <-chan struct{}) {
	for {
		timer := d.clock.NewTimer(repeatTick)
		select {
		case <-timer.C():
			d.startRepeats()
		case <-done:
			timer.Stop()
			return
		}
	}
}

// startRepeats starts a goroutine for each receiver that can have messages to repeat. It does
// not wait for the rate limits of messages.
func (d *Dispatcher) startRepeats() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	for _, q := range d.queues {
		if d.running == nil || !q.usable() || q.repeats.running || q.repeats.next.After(now) || q.next.After(now) {
			continue
		}
		if n, ok := q.receiver.Notifier.(Repeater); ok {
			q.repeats.running = true
			w := &worker{Dispatcher: d, lifetime: d.running, queue: q}
			c := config{receiver: q.receiver, current: q.current}
			d.workers.Go(func() { w.repeatAll(c, n) })
		}
	}
}

// repeatAll sends all messages again that are due, one request after the other.
func (w *worker) repeatAll(c config, n Repeater) {
	due := w.clock.Now().Add(-n.RepeatEvery())
	for more := w.outbox.CaughtUp(alarm.Began(w.clock, w.began)); more && w.work.Err() == nil; {
		var err error
		if more, err = w.repeat(c, n, due); err != nil {
			w.log.Error(err, "Reading or writing the outbox failed, retrying", "receiver", w.queue.key)
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.repeats.running = false
}

// repeat makes one request with messages that were last sent at a time or before, or more if
// the receiver refuses it. It reports whether there may be more to do. Errors come from the outbox.
func (w *worker) repeat(c config, n Repeater, due time.Time) (more bool, err error) {
	place := w.inFlight.enter(c.receiver.Namespace)
	defer w.inFlight.leave(place)
	select {
	case <-place.granted:
	case <-c.current.Done():
		return false, nil
	case <-w.work.Done():
		return false, nil
	}
	r := &w.queue.repeats
	all, err := r.begin(func() ([]outbox.Repeated, error) {
		return w.outbox.Repeated(w.storage, w.queue.key, due, maxRepeated, maxRepeatedBytes)
	})
	defer r.end()
	if err != nil {
		return false, err
	}
	if len(all) == 0 {
		w.nothingToRepeat()
		return false, nil
	}
	if messages := remembered(all, w.clock.Now()); len(messages) > 0 {
		if err := w.sendAgain(c, n, messages); !w.repeated(c, n, err) {
			return false, nil
		}
	}
	return true, w.outbox.SetRepeated(w.storage, w.queue.key, all, w.clock.Now())
}

// sendAgain sends messages in one request. If the receiver refuses it, sendAgain sends its
// halves, because one message can be the reason. It returns the refusal of a part, or the error
// that ended it.
func (w *worker) sendAgain(c config, n Repeater, messages []message.Message) (refusal error) {
	ctx, cancel := w.requestContext(c)
	defer cancel()
	parts := [][]message.Message{messages}
	for divided := 0; len(parts) > 0; {
		if err := Early(ctx).Err(); err != nil {
			return err
		}
		part := parts[0]
		parts = parts[1:]
		err := n.SendAgain(ctx, part)
		switch half := len(part) / 2; {
		case err == nil:
		case asSendError(err).Class != Reject:
			return err
		case half > 0 && divided < maxRefused:
			divided++
			parts = append(parts, part[:half], part[half:])
		default:
			refusal = err
		}
	}
	return refusal
}

// nothingToRepeat forgets a failure of messages that need not be sent again any more.
func (w *worker) nothingToRepeat() {
	w.mu.Lock()
	if w.clock.Now().Before(w.queue.repeats.refused) {
		w.mu.Unlock()
		return
	}
	failed := w.queue.repeats.failure != nil
	w.queue.repeats.forget()
	w.mu.Unlock()
	if failed {
		w.observer.Changed(w.queue.key)
	}
}

// repeated handles the result of a request, and reports whether the receiver answered it.
// Messages that the receiver refuses are sent again with the next ones.
func (w *worker) repeated(c config, n Repeater, err error) (answered bool) {
	if err != nil && (w.work.Err() != nil || c.current.Err() != nil) {
		return false
	}
	r := &w.queue.repeats
	var e *SendError
	var pause time.Duration
	if err != nil {
		e = asSendError(err)
	}
	if answered = e == nil || e.Class == Reject; answered {
		r.backoff.reset()
	} else {
		pause = r.backoff.afterFailure(e, repeatTick, min(maxRepeat, n.RepeatEvery()/2))
	}
	w.mu.Lock()
	former := r.failure
	if !w.unchanged(c) {
		w.mu.Unlock()
		return false
	}
	now := w.clock.Now()
	e = r.orRefused(e, now, n.RepeatEvery())
	r.failure, r.next = e, now.Add(pause)
	w.mu.Unlock()
	switch {
	case e != nil && (former == nil || !former.same(e)):
		w.observer.Failing(w.queue.key, e)
	case e == nil && former != nil:
		w.observer.Recovered(w.queue.key)
	}
	return answered
}

// remember returns what is stored of a message to send it again, or nil.
func remember(n Notifier, m *message.Message) []byte {
	if _, ok := n.(Repeater); !ok || m.Group == nil || m.Group.Resolved {
		return nil
	}
	kept := *m
	kept.Events = []message.Event{}
	if IsWarning(m) {
		kept.Events = []message.Event{{Type: "Warning"}}
	}
	data, err := message.Encode(kept)
	if err != nil {
		return nil
	}
	return data
}

// remembered returns the messages that can be decoded. The message of a group that ended
// resolves it now.
func remembered(all []outbox.Repeated, now time.Time) (messages []message.Message) {
	for i := range all {
		var m message.Message
		if json.Unmarshal(all[i].Data, &m) != nil || m.Group == nil {
			continue
		}
		if all[i].Ended {
			m.Group.Resolved, m.LastSeen = true, now
		}
		messages = append(messages, m)
	}
	return messages
}
