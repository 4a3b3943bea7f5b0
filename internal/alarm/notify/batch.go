package notify

import (
	"context"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// maxBatchBytes limits the bodies of the messages of a batch. One message alone can have
	// more.
	maxBatchBytes = 128 << 10
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
	// of them or none. The key identifies the request.
	SendBatch(ctx context.Context, key string, messages []BatchMessage) error
}

// maxBatch returns how many messages of the lane one request can have.
func (w *worker) maxBatch(n Notifier) int {
	batcher, ok := n.(Batcher)
	if !ok || w.lane.id != outbox.MainLane {
		return 1
	}
	limit := min(batcher.MaxBatch(), outbox.MaxEntries)
	if w.lane.batch > 0 {
		limit = min(limit, w.lane.batch)
	}
	return limit
}

// batch renders the oldest messages of the lane that one request can deliver. It returns
// nil if that is one message. Each message after the first needs a permission of the rate
// limits, so that a batch does not exceed them. It returns the permissions if there is no batch.
func (w *worker) batch(c config) (*draft, error) {
	limit := w.maxBatch(c.receiver.Notifier)
	if limit < minBatch || w.outbox.Backlog(w.queue.key).Entries < minBatch {
		return nil, nil
	}
	d, bytes := newDraft(false), 0
	d.Kind, d.Format = KindBatch, c.receiver.Notifier.Format()
	err := d.collect(limit, w.pending(), func(e *outbox.Entry, m *message.Part) (choice, error) {
		if m == nil || w.lane.singles[e.ID] {
			return choice{}, nil // one that cannot be read or rendered is sent alone, which drops it
		}
		body, err := w.render(c, m.Message)
		state := groupState(c.receiver.Notifier, &m.Message)
		size := len(body) + len(state.Remember)
		if err != nil || len(d.ids) > 0 && (bytes+size > maxBatchBytes || !d.takeNow(c.limits, w.clock.Now())) {
			return choice{}, nil
		}
		d.Messages, bytes = append(d.Messages, BatchMessage{e.Key, body}), bytes+size
		d.setGroup(state)
		return choice{true, true}, nil
	})
	if err != nil || len(d.ids) < minBatch {
		d.returnPermissions()
		return nil, err
	}
	return d, nil
}

// batchSucceeded lets the next batch be larger, up to the limit of the receiver.
func (w *worker) batchSucceeded() {
	if w.lane.batch > 0 {
		w.lane.batch++
	}
}
