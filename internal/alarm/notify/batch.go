package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// maxBatchBytes limits the bodies of the messages of a batch. One message alone can have
	// more.
	maxBatchBytes = 128 << 10
	// batchPage is the number of entries that are read at once for a batch.
	batchPage = 25
	// batchAttempts is the number of attempts of a batch, after which its messages are sent
	// alone. If the receiver rejects the batch, they are sent alone at once.
	batchAttempts = 3
	// minBatch is the lowest limit of the messages of a batch after failures.
	minBatch = 2
)

// Batcher is a Notifier that can deliver several messages with one request.
type Batcher interface {
	Notifier
	// MaxBatch returns the maximum number of messages in a request. Below 2, there are no
	// batches.
	MaxBatch() int
	// SendBatch replaces Send for several messages, in their order. The receiver accepts all
	// of them or none. The key is that of the request.
	SendBatch(ctx context.Context, key string, messages []BatchMessage) error
}

// BatchMessage is a message of a batch.
type BatchMessage struct {
	// Key is the idempotency key of the message, which it also has alone.
	Key string `json:"key"`
	// Body is that of Notifier.Render.
	Body []byte `json:"body"`
}

// preparedBatch is stored in the outbox as the body of an attempt.
type preparedBatch struct {
	// Format is the format of the Notifier that rendered the messages.
	Format   string         `json:"format"`
	Messages []BatchMessage `json:"messages"`
	// Groups contains the last state of each group that has a message in the batch.
	Groups []outbox.GroupState `json:"groups,omitempty"`
}

// batchDraft is a batch under construction.
type batchDraft struct {
	messages []BatchMessage
	groups   []outbox.GroupState
	// bytes is the size of the bodies and of the groups.
	bytes int
	// last is the ID of the last entry.
	last int64
	// undo returns the permissions of the rate limits that the messages after the first have.
	undo []func()
}

// maxBatch returns how many messages of the lane one request can have.
func (w *worker) maxBatch(n Notifier) int {
	batcher, ok := n.(Batcher)
	if !ok || w.lane.id != outbox.MainLane {
		return 1
	}
	limit := batcher.MaxBatch()
	if w.lane.batch > 0 {
		limit = min(limit, w.lane.batch)
	}
	return limit
}

// nextBatch prepares the oldest messages of the lane that one request can deliver. It returns
// nil if that is one message. Each message after the first needs a permission of the rate
// limits, so that a batch does not exceed them. It returns the permissions if there is no batch.
func (w *worker) nextBatch(c config) (a *outbox.Attempt, err error) {
	limit := w.maxBatch(c.receiver.Notifier)
	if limit < minBatch || w.outbox.Backlog(w.queue.key).Entries < minBatch {
		return nil, nil
	}
	d := &batchDraft{}
	defer func() {
		if a == nil {
			d.returnPermissions()
		}
	}()
	for more := true; more; {
		size := min(batchPage, limit-len(d.messages))
		entries, err := w.outbox.Pending(w.storage, w.queue.key, w.lane.id, d.last, size)
		if err != nil {
			return nil, err
		}
		added := 0
		for added < len(entries) && w.addToBatch(c, d, &entries[added]) {
			added++
		}
		more = added == batchPage && len(d.messages) < limit
	}
	if len(d.messages) < minBatch {
		return nil, nil
	}
	body, err := json.Marshal(preparedBatch{Format: c.receiver.Notifier.Format(), Messages: d.messages, Groups: d.groups})
	if err != nil {
		return nil, fmt.Errorf("encode a batch: %w", err)
	}
	a, err = w.outbox.PrepareBatch(w.storage, w.queue.key, d.last, d.key(), body)
	if errors.Is(err, outbox.ErrNothingPending) || errors.Is(err, outbox.ErrTooManyPrepared) {
		return nil, nil // one message can still have the space
	}
	return a, err
}

// addToBatch adds the message of an entry. It returns false if the message must wait. One that
// cannot be read or rendered is sent alone, which drops it.
func (w *worker) addToBatch(c config, d *batchDraft, e *outbox.Entry) bool {
	var m message.Message
	if len(d.messages) == 0 && e.ID <= w.lane.single || json.Unmarshal(e.Payload, &m) != nil {
		return false
	}
	body, err := w.render(c, m)
	state := groupState(c.receiver.Notifier, &m)
	size := len(body) + len(state.Remember)
	if err != nil || len(d.messages) > 0 && (d.bytes+size > maxBatchBytes || !d.takeNow(c.limits, w.clock.Now())) {
		return false
	}
	d.messages = append(d.messages, BatchMessage{Key: e.Key, Body: body})
	d.setGroup(state)
	d.bytes += size
	d.last = e.ID
	return true
}

// groupState returns what the delivery of a message changes in its group.
func groupState(n Notifier, m *message.Message) outbox.GroupState {
	s := outbox.GroupState{Resolves: IsResolved(m), Remember: remember(n, m)}
	if m.Group != nil {
		s.Group = m.Group.Key
	}
	return s
}

// setGroup replaces the state of a group by a later one, unless that changes nothing.
func (d *batchDraft) setGroup(s outbox.GroupState) {
	if !s.Resolves && s.Remember == nil {
		return
	}
	d.groups = slices.DeleteFunc(d.groups, func(former outbox.GroupState) bool { return former.Group == s.Group })
	d.groups = append(d.groups, s)
}

// key returns the idempotency key of the request.
func (d *batchDraft) key() string {
	keys := make([]string, 0, len(d.messages))
	for _, m := range d.messages {
		keys = append(keys, m.Key)
	}
	return combinedKey("batch", keys)
}

// contains reports whether a message with a key is in a batch.
func (b *preparedBatch) contains(key string) bool {
	return slices.ContainsFunc(b.Messages, func(m BatchMessage) bool { return m.Key == key })
}

// dropFromBatch drops a message of a prepared batch, by its key. The other messages are then
// pending again. found is false if the message is in no batch.
func (w *worker) dropFromBatch(a *outbox.Attempt, key string) (found bool, err error) {
	var b preparedBatch
	if !a.Batch || json.Unmarshal(a.Body, &b) != nil || !b.contains(key) {
		return false, nil
	}
	counts, err := w.outbox.DropFromBatch(w.storage, a, key)
	w.dropped(counts, DropByUser, droppedByUserText)
	return true, err
}

// sendBatch makes one attempt to deliver a batch, and handles its result like send. If the
// receiver changed and cannot get the batch any more, its messages are pending again.
func (w *worker) sendBatch(c config, a *outbox.Attempt) (pause time.Duration, err error) {
	var b preparedBatch
	err = json.Unmarshal(a.Body, &b)
	batcher, ok := c.receiver.Notifier.(Batcher)
	if err != nil || !ok || b.Format != batcher.Format() || len(b.Messages) > batcher.MaxBatch() {
		return 0, w.outbox.Discard(w.storage, a)
	}
	ctx, cancel := w.requestContext(c)
	defer cancel()
	for _, g := range b.Groups {
		w.queue.repeats.await(ctx, g.Group)
	}
	if err = batcher.SendBatch(ctx, a.Key, b.Messages); err == nil {
		a.Groups = b.Groups
	}
	return w.handle(c, a, "", err)
}

// divide makes the messages of a batch or an incident that failed pending again: only some of
// them can be the cause. Those of a batch are sent alone. If its size is the cause, the next
// batches are smaller. After a refusal about an incident, its oldest message is sent alone.
func (w *worker) divide(a *outbox.Attempt) error {
	if a.Batch {
		w.lane.single = a.Last
		w.lane.batch = max(minBatch, int(a.Entries)/2)
	} else {
		w.lane.single = slices.Min(a.Picked)
	}
	return w.outbox.Discard(w.storage, a)
}

// batchSucceeded lets the next batch be larger, up to the limit of the receiver.
func (w *worker) batchSucceeded() {
	if w.lane.batch > 0 {
		w.lane.batch++
	}
}

// reserve asks all limits for one message. It returns how long the message must wait.
func reserve(limits []*rate.Limiter, now time.Time) (reservations []*rate.Reservation, delay time.Duration) {
	for _, limit := range limits {
		r := limit.ReserveN(now, 1)
		reservations = append(reservations, r)
		delay = max(delay, r.DelayFrom(now))
	}
	return reservations, delay
}

func cancelAll(reservations []*rate.Reservation, now time.Time) {
	for _, r := range reservations {
		r.CancelAt(now)
	}
}

// takeNow takes the permission for one message from all limits, unless it must wait.
func (d *batchDraft) takeNow(limits []*rate.Limiter, now time.Time) bool {
	reservations, delay := reserve(limits, now)
	undo := func() { cancelAll(reservations, now) } // a limiter ignores a cancellation at a later time
	if delay > 0 {
		undo()
		return false
	}
	d.undo = append(d.undo, undo)
	return true
}

func (d *batchDraft) returnPermissions() {
	for _, undo := range d.undo {
		undo()
	}
}
