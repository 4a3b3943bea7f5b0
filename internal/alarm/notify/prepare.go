package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// pageSize is the number of entries that are read at once for a message. It limits
	// the memory.
	pageSize = 500
	// maxSeparate is the maximum backlog at which a Threader gets one message for each
	// group. Above it, groups are part of digests, which do not continue threads.
	maxSeparate = 20
	// maxSearched is the number of pending messages among which those of one destination are
	// searched. It limits the time.
	maxSearched = 2_000
	// maxThreads is the number of open threads that the groups of one budget, which is that
	// of a namespace, can have at a receiver. Each needs a message that resolves it, for which
	// others wait. Further groups have messages without a thread.
	maxThreads = 100
)

const unreadableText = "the message could not be read or rendered, which is a bug in the operator: see the operator's log"

// request is a prepared message, or a prepared batch of them.
type request struct {
	*outbox.Attempt
	content
}

// content is stored in the outbox as the body of an attempt.
type content struct {
	Kind Kind `json:"kind"`
	// Format is the format of the Notifier that rendered the messages.
	Format string `json:"format"`
	// Messages are in the order of the entries if the Kind is KindBatch. Else it is one.
	Messages []BatchMessage `json:"messages"`
	// Groups contains the last state of each group that has a message.
	Groups []outbox.GroupState `json:"groups,omitempty"`
}

// BatchMessage is a message as the receiver gets it.
type BatchMessage struct {
	// Key is the idempotency key of the message.
	Key string `json:"key"`
	// Body is what Notifier.Render returned.
	Body []byte `json:"body"`
}

// combines reports whether the receiver gets one message for several entries that are not a digest.
func (r *request) combines() bool {
	return len(r.Entries) > 1 && r.Kind != KindDigest && r.Kind != KindBatch
}

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

// draft is a message or a batch under construction.
type draft struct {
	content
	ids  []int64
	keys []string
	// incident means that the newest message replaces the others. combined has those that can be
	// read, and readable is their number.
	incident bool
	combined combiner
	readable int
	// undo returns the permissions of the rate limits that the messages of a batch after the first have.
	undo []func()
}

// combiner makes one message of several.
type combiner interface {
	Add(message.Part)
	Message() message.Message
}

// newDraft returns an empty draft of a digest. If it is about an incident, the newest message replaces
// the others instead.
func newDraft(incident bool) *draft {
	if incident {
		return &draft{incident: true, combined: message.NewLatest()}
	}
	return &draft{combined: message.NewCombiner()}
}

// take adds an entry. Its message is nil if it cannot be read.
func (d *draft) take(e *outbox.Entry, m *message.Part) {
	d.ids, d.keys = append(d.ids, e.ID), append(d.keys, e.Key)
	if m != nil {
		d.readable++
		d.combined.Add(*m)
	}
}

// key returns the idempotency key. The key of a single entry is used as it is, so that
// it stays the same if the operator reads the same Event again. That of several differs by kind.
func (d *draft) key() string {
	if len(d.keys) == 1 {
		return d.keys[0]
	}
	sum := sha256.New()
	_, _ = io.WriteString(sum, string(d.Kind)+"\x00") // a hash never returns an error
	for _, key := range d.keys {
		_, _ = io.WriteString(sum, key+"\x00")
	}
	return hex.EncodeToString(sum.Sum(nil)[:keyLength])
}

// keyLength is the number of bytes of a key, as in alarm.Key.
const keyLength = 16

var errNothingReadable = errors.New("nothing of the message can be read")

// renderAll renders one message for all entries.
func (w *worker) renderAll(c config, d *draft) error {
	if d.readable == 0 {
		return errNothingReadable
	}
	m := d.combined.Message()
	switch {
	case len(d.ids) > 1 && !d.incident:
		d.Kind = KindDigest
	case m.Group != nil:
		d.Kind, d.Groups = KindGroup, []outbox.GroupState{groupState(c.receiver.Notifier, &m)}
	default:
		d.Kind = KindOccurrence
	}
	body, err := w.render(c, m)
	if err != nil {
		return fmt.Errorf("render a message: %w", err)
	}
	d.Format, d.Messages = c.receiver.Notifier.Format(), []BatchMessage{{d.key(), body}}
	return nil
}

// groupState returns what the delivery of a message changes in its group.
func groupState(n Notifier, m *message.Message) outbox.GroupState {
	s := outbox.GroupState{Resolves: IsResolved(m), Remember: remember(n, m)}
	if m.Group != nil {
		s.Group = m.Group.Key
	}
	return s
}

func decode(e *outbox.Entry) (*message.Part, error) {
	var m message.Part
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// choice is what happens to an entry that is offered to a draft: whether it is taken, and whether
// later entries are offered.
type choice struct{ take, more bool }

// chooser chooses entries. The message is nil if it cannot be read.
type chooser func(*outbox.Entry, *message.Part) (choice, error)

// collect offers pages of at most so many entries to a draft, the oldest first, until it has enough.
// read returns the page after an ID.
func (d *draft) collect(limit, page int, read func(after int64, size int) ([]outbox.Entry, error), choose chooser) error {
	for after := int64(0); len(d.ids) < limit; {
		entries, err := read(after, min(page, limit-len(d.ids)))
		if len(entries) == 0 || err != nil {
			return err
		}
		if more, err := d.offer(entries, choose); !more || err != nil {
			return err
		}
		after = entries[len(entries)-1].ID
	}
	return nil
}

// offer reports whether later entries are offered too.
func (d *draft) offer(entries []outbox.Entry, choose chooser) (more bool, err error) {
	more = true
	for i := 0; i < len(entries) && more; i++ {
		m, _ := decode(&entries[i])
		chosen, err := choose(&entries[i], m)
		if err != nil {
			return false, err
		}
		if chosen.take {
			d.take(&entries[i], m)
		}
		more = chosen.more
	}
	return more, nil
}

// pending reads a page of the lane.
func (w *worker) pending(after int64, size int) ([]outbox.Entry, error) {
	return w.outbox.Pending(w.storage, outbox.Query{Receiver: w.queue.key, Lane: w.lane.id, After: after, Limit: size})
}

// digest combines the oldest pending entries, at most limit, that have the destination of the
// first one.
func (w *worker) digest(c config, limit int) (*draft, error) {
	d, to, searched := newDraft(false), "", 0
	separate := w.separator(c.receiver)
	return d, d.collect(limit, pageSize, w.pending, func(e *outbox.Entry, m *message.Part) (choice, error) {
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

// divide makes the messages of a batch or an incident that failed pending again: only some of
// them can be the cause. Those of a batch are sent alone. If its size is the cause, the next
// batches are smaller. After a refusal about an incident, its oldest message is sent alone.
func (w *worker) divide(r *request) error {
	w.lane.single = r.Entries[0]
	if r.Kind == KindBatch {
		w.lane.single = r.Entries[len(r.Entries)-1]
		w.lane.batch = max(minBatch, len(r.Entries)/2)
	}
	_, err := w.outbox.Discard(w.storage, r.Attempt)
	return err
}

// dropOne drops the message with a key of a prepared batch. The other messages are then
// pending again. found is false if the message is in no batch.
func (w *worker) dropOne(r *request, key string) (found bool, err error) {
	i := slices.IndexFunc(r.Messages, func(m BatchMessage) bool { return m.Key == key })
	if i < 0 || r.Kind != KindBatch {
		return false, nil
	}
	counts, err := w.outbox.Discard(w.storage, r.Attempt, r.Entries[i])
	w.dropped(counts, DropByUser, droppedByUserText)
	return true, err
}
