package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// pageSize is the number of entries that are read at once for a digest. It limits
	// the memory.
	pageSize = 500
	// maxDigest limits the entries of one digest. The next digest has the rest.
	maxDigest = 1_000_000
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

// next returns the message of the lane to send: the prepared one, or else the oldest pending
// one, or a batch. If the rate limit held that back, next returns a digest of all pending
// messages. It returns nil if nothing is left to send.
func (w *worker) next(c config, heldBack bool) (*outbox.Attempt, error) {
	prepared, err := w.outbox.Prepared(w.storage, w.queue.key, w.lane.id)
	if prepared != nil || err != nil {
		return prepared, err
	}
	limit := 1
	if heldBack {
		limit = w.lane.maxDigest()
	} else if several, err := w.nextSeveral(c); several != nil || err != nil {
		return several, err
	}
	d, err := w.compose(limit, w.newDraft(c.receiver))
	if err != nil || d.entries == 0 {
		return nil, err
	}
	return w.prepare(c, d)
}

// nextSeveral prepares the oldest messages that one request can deliver, or that the newest can
// replace. It returns nil if that is one message.
func (w *worker) nextSeveral(c config) (*outbox.Attempt, error) {
	if batch, err := w.nextBatch(c); batch != nil || err != nil {
		return batch, err
	}
	return w.nextIncident(c)
}

// prepare renders and stores the message before it is sent. If rendering fails, it
// drops the message with its entries, because rendering would always fail.
func (w *worker) prepare(c config, d *draft) (*outbox.Attempt, error) {
	body, unreadable := w.renderDraft(c, d)
	if errors.Is(unreadable, ErrInterrupted) {
		return nil, nil
	}
	a, err := w.store(d, body)
	if errors.Is(err, outbox.ErrNothingPending) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if unreadable != nil {
		w.log.Error(unreadable, "A message cannot be rendered and is dropped", "receiver", w.queue.key)
		w.result = &result{attempt: a, cause: DropUnreadable, text: unreadableText}
		return nil, w.acknowledge()
	}
	return a, nil
}

// store stores a message. One that leaves out pending messages of other destinations needs the
// IDs of its own.
func (w *worker) store(d *draft, body []byte) (*outbox.Attempt, error) {
	if d.destination != nil && d.entries > 1 {
		return w.outbox.PrepareDigest(w.storage, w.queue.key, d.ids, d.key(), body)
	}
	return w.outbox.Prepare(w.storage, w.queue.key, w.lane.id, d.last, d.key(), body)
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

// newDraft returns an empty draft.
func (w *worker) newDraft(r *Receiver) *draft {
	return &draft{combiner: message.NewCombiner(), keys: sha256.New(), separate: w.separator(r), destination: r.Destination}
}

// compose combines the oldest pending entries, at most limit, that have the destination of the
// first one.
func (w *worker) compose(limit int, d *draft) (*draft, error) {
	if d.destination != nil {
		limit = min(limit, maxRepeats)
	}
	for after, searched := int64(0), 0; d.entries < limit && searched < maxSearched; {
		size := min(pageSize, limit-d.entries)
		entries, err := w.outbox.Pending(w.storage, w.queue.key, w.lane.id, after, size)
		if err != nil {
			return nil, err
		}
		if err := w.addAll(d, entries); err != nil {
			return nil, err
		}
		if len(entries) < size || d.full {
			break
		}
		after = entries[size-1].ID
		if d.destination != nil {
			searched += size
		}
	}
	return d, nil
}

// addAll adds entries to a draft until it is full.
func (w *worker) addAll(d *draft, entries []outbox.Entry) error {
	for i := 0; i < len(entries) && !d.full; i++ {
		unreadable, err := d.add(&entries[i])
		if err != nil {
			return err
		}
		if unreadable != nil {
			w.log.Error(unreadable, "A message in the outbox cannot be read", "receiver", w.queue.key)
		}
	}
	return nil
}

// keyLength is the number of bytes of a key, as in alarm.Key.
const keyLength = 16

// combinedKey returns the idempotency key of several messages. It differs from that of a digest
// of the same messages.
func combinedKey(kind string, keys []string) string {
	sum := sha256.New()
	_, _ = io.WriteString(sum, kind+"\x00") // a hash never returns an error
	for _, key := range keys {
		_, _ = io.WriteString(sum, key+"\x00")
	}
	return hex.EncodeToString(sum.Sum(nil)[:keyLength])
}

// draft is a message under construction.
type draft struct {
	combiner *message.Combiner
	entries  int
	readable int
	// last is the ID of the last entry.
	last int64
	// keys is a hash of the keys of all entries. firstKey is the key of the first.
	keys     hash.Hash
	firstKey string
	separate separator
	// full means that no more entries may be added.
	full bool
	// destination is Receiver.Destination, or nil. to is that of the entries, ids are their IDs.
	destination func(*message.Message) string
	to          string
	ids         []int64
}

// isElsewhere reports whether a message has another destination than the draft. The first message
// decides that.
func (d *draft) isElsewhere(m *message.Message) bool {
	if d.destination == nil {
		return false
	}
	to := d.destination(m)
	if d.readable == 0 {
		d.to = to
	}
	return to != d.to
}

// add adds an entry, unless it has another destination. An entry that cannot be read is only
// counted. err is that of the outbox.
func (d *draft) add(e *outbox.Entry) (unreadable, err error) {
	var m message.Message
	unreadable = json.Unmarshal(e.Payload, &m)
	if unreadable == nil && d.isElsewhere(&m) {
		return nil, nil
	}
	if unreadable == nil {
		if d.full, err = d.separate(&m); err != nil || d.full && d.entries > 0 {
			return nil, err
		}
	}
	if d.entries == 0 {
		d.firstKey = e.Key
	}
	d.entries++
	d.last = e.ID
	if d.destination != nil {
		d.ids = append(d.ids, e.ID)
	}
	_, _ = io.WriteString(d.keys, e.Key+"\x00") // a hash never returns an error
	if unreadable == nil {
		d.readable++
		d.combiner.Add(m)
	}
	return unreadable, nil
}

// key returns the idempotency key. The key of a single entry is used as it is, so that
// it stays the same if the operator reads the same Event again.
func (d *draft) key() string {
	if d.entries == 1 {
		return d.firstKey
	}
	return hex.EncodeToString(d.keys.Sum(nil)[:keyLength])
}

var errNothingReadable = errors.New("nothing of the message can be read")

func (w *worker) renderDraft(c config, d *draft) ([]byte, error) {
	if d.readable == 0 {
		return nil, errNothingReadable
	}
	m := d.combiner.Message()
	return w.encodeBody(c, &m)
}

// preparedBody is stored in the outbox as the body of an attempt.
type preparedBody struct {
	// Format is the format of the Notifier that rendered Body.
	Format string `json:"format"`
	Body   []byte `json:"body"`
	// Message is rendered again if the receiver's type changes.
	Message json.RawMessage `json:"message"`
	// Resolves is true if the message resolves a group, Digest if it is a digest.
	Resolves bool `json:"resolves,omitempty"`
	Digest   bool `json:"digest,omitempty"`
}

func (w *worker) encodeBody(c config, m *message.Message) ([]byte, error) {
	body, err := w.render(c, *m)
	if err != nil {
		return nil, fmt.Errorf("render a message: %w", err)
	}
	message, err := message.Encode(*m)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	return json.Marshal(preparedBody{
		Format: c.receiver.Notifier.Format(), Body: body, Message: message, Resolves: m.Group != nil && m.Group.Resolved, Digest: m.Digest,
	})
}

// remember returns what is stored of the message to send it again, or nil.
func (b *preparedBody) remember(n Notifier) []byte {
	var m message.Message
	if _, ok := n.(Repeater); !ok || json.Unmarshal(b.Message, &m) != nil {
		return nil
	}
	return remember(n, &m)
}

func loadBody(a *outbox.Attempt) (*preparedBody, error) {
	var b preparedBody
	if err := json.Unmarshal(a.Body, &b); err != nil {
		return nil, fmt.Errorf("decode a prepared message: %w", err)
	}
	return &b, nil
}

// bodyFor returns the stored body if the receiver has the same format. Otherwise it renders the
// message again. Rendering always has the same result, so retries stay identical.
func (w *worker) bodyFor(c config, b *preparedBody) ([]byte, error) {
	if b.Format == c.receiver.Notifier.Format() {
		return b.Body, nil
	}
	var m message.Message
	if err := json.Unmarshal(b.Message, &m); err != nil {
		return nil, fmt.Errorf("decode a message: %w", err)
	}
	done, ok := w.mayRender(c)
	if !ok {
		return nil, ErrInterrupted
	}
	defer done()
	return w.render(c, m)
}
