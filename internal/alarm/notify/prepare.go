package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

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
)

const unreadableText = "the message could not be read or rendered, which is a bug in the operator: see the operator's log"

// next returns the message to send: the prepared one, or else the oldest pending one.
// If the rate limit held that back, next returns a digest of all pending messages. It
// returns nil if nothing is left to send.
func (w *worker) next(c config, prepared *outbox.Attempt, heldBack bool) (*outbox.Attempt, error) {
	if prepared != nil {
		return prepared, nil
	}
	limit := 1
	if heldBack {
		limit = maxDigest
	}
	_, threads := c.receiver.Notifier.(Threader)
	d, err := w.compose(limit, threads && w.outbox.Backlog(w.queue.key).Entries <= maxSeparate)
	if err != nil || d.entries == 0 {
		return nil, err
	}
	return w.prepare(c, d)
}

// prepare renders and stores the message before it is sent. If rendering fails, it
// drops the message with its entries, because rendering would always fail.
func (w *worker) prepare(c config, d *draft) (*outbox.Attempt, error) {
	body, unreadable := d.render(c.receiver.Notifier)
	a, err := w.outbox.Prepare(w.storage, w.queue.key, d.last, d.key(), body)
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

// compose combines the oldest pending entries, at most limit. If separate is true, the
// message of a group is not combined with others.
func (w *worker) compose(limit int, separate bool) (*draft, error) {
	d := &draft{combiner: message.NewCombiner(), keys: sha256.New(), separate: separate}
	for d.entries < limit {
		size := min(pageSize, limit-d.entries)
		entries, err := w.outbox.Pending(w.storage, w.queue.key, d.last, size)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(entries) && !d.full; i++ {
			if err := d.add(&entries[i]); err != nil {
				w.log.Error(err, "A message in the outbox cannot be read", "receiver", w.queue.key)
			}
		}
		if len(entries) < size || d.full {
			break
		}
	}
	return d, nil
}

// draft is a message under construction.
type draft struct {
	combiner *message.Combiner
	entries  int
	readable int
	// last is the ID of the last entry, newest the time when it was created.
	last   int64
	newest time.Time
	// keys is a hash of the keys of all entries. firstKey is the key of the first.
	keys     hash.Hash
	firstKey string
	// separate means that the message of a group is not combined with others, full
	// that no more entries may be added.
	separate, full bool
}

// add adds an entry. An entry that cannot be read is only counted.
func (d *draft) add(e *outbox.Entry) error {
	var m message.Message
	err := json.Unmarshal(e.Payload, &m)
	if d.separate && m.Group != nil {
		if d.full = true; d.entries > 0 {
			return nil
		}
	}
	if d.entries == 0 {
		d.firstKey = e.Key
	}
	d.entries++
	d.last, d.newest = e.ID, e.CreatedAt
	_, _ = io.WriteString(d.keys, e.Key+"\x00") // a hash never returns an error
	if err != nil {
		return err
	}
	d.readable++
	d.combiner.Add(m)
	return nil
}

// key returns the idempotency key. The key of a single entry is used as it is, so that
// it stays the same if the operator reads the same Event again.
func (d *draft) key() string {
	if d.entries == 1 {
		return d.firstKey
	}
	const length = 16 // as in alarm.Key
	return hex.EncodeToString(d.keys.Sum(nil)[:length])
}

var errNothingReadable = errors.New("nothing of the message can be read")

func (d *draft) render(n Notifier) ([]byte, error) {
	if d.readable == 0 {
		return nil, errNothingReadable
	}
	m := d.combiner.Message()
	return encodeBody(n, &m, d.newest)
}

// preparedBody is stored in the outbox as the body of an attempt.
type preparedBody struct {
	// Format is the format of the Notifier that rendered Body.
	Format string `json:"format"`
	Body   []byte `json:"body"`
	// Message is rendered again if the receiver's type changes.
	Message json.RawMessage `json:"message"`
	// Newest is when the newest of the entries was created.
	Newest time.Time `json:"newest"`
}

func encodeBody(n Notifier, m *message.Message, newest time.Time) ([]byte, error) {
	body, err := n.Render(*m)
	if err != nil {
		return nil, fmt.Errorf("render a message: %w", err)
	}
	message, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	return json.Marshal(preparedBody{Format: n.Format(), Body: body, Message: message, Newest: newest})
}

func loadBody(a *outbox.Attempt) (*preparedBody, error) {
	var b preparedBody
	if err := json.Unmarshal(a.Body, &b); err != nil {
		return nil, fmt.Errorf("decode a prepared message: %w", err)
	}
	return &b, nil
}

// bodyFor returns the stored body if n has the same format. Otherwise it renders the
// message for n. Rendering always has the same result, so retries stay identical.
func (b *preparedBody) bodyFor(n Notifier) ([]byte, error) {
	if b.Format == n.Format() {
		return b.Body, nil
	}
	var m message.Message
	if err := json.Unmarshal(b.Message, &m); err != nil {
		return nil, fmt.Errorf("decode a message: %w", err)
	}
	return n.Render(m)
}
