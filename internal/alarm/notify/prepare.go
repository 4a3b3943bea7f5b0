package notify

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// pageSize is the number of entries that are read at once for a message about an incident. It limits
	// the memory.
	pageSize = 500
	// maxSeparate is the maximum backlog at which a Threader gets one message for each
	// group. Above it, groups are part of digests, which do not continue threads.
	maxSeparate = 20
	// maxSearched is the number of pending messages among which those of one destination are
	// searched. It limits the time.
	maxSearched = 2_000
)

const unreadableText = "the message could not be read or rendered, which is a bug in the operator: see the operator's log"

// next returns the message of the lane to send: the prepared one, or else the oldest pending
// one, or several of those. If the rate limit held that back, these are a digest. It returns nil
// if nothing is left to send.
func (w *worker) next(c config, heldBack bool) (*request, error) {
	r, err := w.loadPrepared(c)
	if errors.Is(err, ErrInterrupted) {
		return nil, nil
	}
	if r != nil || err != nil {
		return r, err
	}
	limit := 1
	if heldBack {
		limit = w.lane.maxDigest()
	} else if r, err := w.nextSeveral(c); r != nil || err != nil {
		return r, err
	}
	d, err := w.digest(c, limit)
	if err != nil || len(d.ids) == 0 {
		return nil, err
	}
	return w.prepareOne(c, d)
}

// nextSeveral prepares the oldest messages that one request can deliver, or that the newest can
// replace. It returns nil if that is one message, or if only one message has the space.
func (w *worker) nextSeveral(c config) (*request, error) {
	for _, several := range []func(config) (*draft, error){w.batch, w.incident} {
		d, err := several(c)
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		r, err := w.store(d)
		if r != nil {
			return r, nil
		}
		d.returnPermissions()
		if err != nil && !errors.Is(err, outbox.ErrTooManyPrepared) {
			return nil, err
		}
	}
	return nil, nil
}

// prepareOne renders and stores a message before it is sent. If rendering fails, it
// drops the message with its entries, because rendering would always fail.
func (w *worker) prepareOne(c config, d *draft) (*request, error) {
	unreadable := w.renderAll(c, d)
	if errors.Is(unreadable, ErrInterrupted) {
		return nil, nil
	}
	r, err := w.store(d)
	if r == nil || err != nil || unreadable == nil {
		return r, err
	}
	return nil, w.dropUnreadable(r, unreadable)
}

// dropUnreadable drops a message that cannot be rendered, unless the cause is ErrInterrupted, which it
// returns.
func (w *worker) dropUnreadable(r *request, cause error) error {
	if errors.Is(cause, ErrInterrupted) {
		return cause
	}
	w.log.Error(cause, "A message cannot be rendered and is dropped", "receiver", w.queue.key)
	w.result = &result{request: r, cause: DropUnreadable, text: unreadableText}
	return w.finish()
}

// store stores a message before it is sent. It returns nil if its entries do not exist any more.
func (w *worker) store(d *draft) (*request, error) {
	body, err := json.Marshal(d.content)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	a, err := w.outbox.Prepare(w.storage, w.queue.key, w.lane.id, d.ids, d.key(), body)
	if errors.Is(err, outbox.ErrNothingPending) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.lane.tenant = d.tenant
	return &request{a, d.content}, nil
}

// loadPrepared returns the prepared message of the lane, or nil. If the receiver has another format now,
// it renders the same entries again. The messages of a batch that it cannot get any more are pending
// again.
func (w *worker) loadPrepared(c config) (*request, error) {
	r, err := w.readPrepared(w.lane.id)
	if r == nil || err != nil {
		return nil, err
	}
	batcher, ok := c.receiver.Notifier.(Batcher)
	switch {
	case r.Format == c.receiver.Notifier.Format() && (r.Kind != KindBatch || ok && len(r.Messages) <= batcher.MaxBatch()):
		return r, nil
	case r.Kind == "", r.Kind == KindBatch:
		_, err := w.outbox.Discard(w.storage, r.Attempt)
		return nil, err
	default:
		return w.renderAgain(c, r)
	}
}

// readPrepared returns the prepared message of a lane, or nil. It has no Kind if it cannot be decoded.
func (w *worker) readPrepared(lane int64) (*request, error) {
	a, err := w.outbox.Prepared(w.storage, w.queue.key, lane)
	if a == nil || err != nil {
		return nil, err
	}
	r := &request{Attempt: a}
	if err := json.Unmarshal(a.Body, &r.content); err != nil {
		w.log.Error(err, "A prepared message cannot be read, and is prepared again", "receiver", w.queue.key)
		r.content = content{}
	}
	return r, nil
}

// renderAgain renders a prepared message in another format.
func (w *worker) renderAgain(c config, r *request) (*request, error) {
	entries, err := w.outbox.Entries(w.storage, r.Attempt.Entries)
	if err != nil {
		return nil, err
	}
	d := newDraft(r.combines())
	for i := range entries {
		m, _ := decode(&entries[i])
		d.take(&entries[i], m)
	}
	if err := w.renderAll(c, d); err != nil {
		return nil, w.dropUnreadable(r, err)
	}
	return &request{r.Attempt, d.content}, nil
}

// digest combines the oldest pending entries, at most limit, that have the destination of the
// first one.
func (w *worker) digest(c config, limit int) (*draft, error) {
	d, to, searched := newDraft(false), "", 0
	separate := w.separator(c.receiver)
	return d, d.collect(limit, w.pending(), func(e *outbox.Entry, m *message.Part) (choice, error) {
		if searched++; searched > maxSearched {
			return choice{}, nil
		}
		if m == nil {
			_, err := decode(e)
			w.log.Error(err, "A message in the outbox cannot be read", "receiver", w.queue.key)
			return choice{true, true}, nil
		}
		if destination := c.receiver.Destination; destination != nil {
			here := destination(&m.Message)
			if d.readable == 0 {
				to = here
			}
			if here != to {
				return choice{false, true}, nil
			}
		}
		alone, err := separate(&m.Message)
		return choice{!alone || len(d.ids) == 0, !alone}, err
	})
}

// separator returns which messages are not combined with others. A notice of an acknowledgement
// never is, because it would look like an occurrence. A message that resolves a
// group with a thread never is: otherwise, the thread would stay open. [maxThreads] bounds
// their number.
func (w *worker) separator(r *Receiver) separator {
	_, threads := r.Notifier.(Threader)
	few := threads && w.outbox.Backlog(w.queue.key).Entries <= maxSeparate
	return func(m *message.Message) (bool, error) {
		switch {
		case m.Group == nil:
			return false, nil
		case m.Acknowledged != nil:
			return true, nil
		case few, r.ResolvesAlone && m.Group.Resolved:
			return true, nil
		case !threads || !m.Group.Resolved:
			return false, nil
		}
		reference, err := w.outbox.Reference(w.storage, w.queue.key, m.Group.Key)
		return reference != "", err
	}
}

// separator reports whether a message is not combined with others.
type separator func(*message.Message) (bool, error)
