package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// pageSize is how many entries are read at once for a digest, which bounds
	// the memory that it takes.
	pageSize = 500
	// maxDigest bounds the entries of one digest; what is beyond it is in the next.
	maxDigest = 1_000_000
	// maxApart is how many entries may wait for a Threader while groups' messages are
	// not put into digests, in which their threads do not go on.
	maxApart = 20
)

const unreadableText = "the message could not be read or rendered, which is a fault of the operator; its log says more"

// next returns the message to send: the one that is frozen, else the oldest that
// is pending or, where the rate limit held that back, a digest of all. It is nil
// if nothing is left to send.
func (w *worker) next(c config, frozen *outbox.Attempt, heldBack bool) (*outbox.Attempt, error) {
	if frozen != nil {
		return frozen, nil
	}
	limit := 1
	if heldBack {
		limit = maxDigest
	}
	_, threads := c.receiver.Notifier.(Threader)
	d, err := w.compose(limit, threads && w.outbox.Backlog(w.queue.key).Entries <= maxApart)
	if err != nil || d.entries == 0 {
		return nil, err
	}
	return w.freeze(c, d)
}

// freeze stores what is about to be sent. What cannot be rendered is given up
// with the entries it was made of: it would be the same each time.
func (w *worker) freeze(c config, d *draft) (*outbox.Attempt, error) {
	body, unreadable := d.render(c.receiver.Notifier)
	a, err := w.outbox.Prepare(w.marking, w.queue.key, d.last, d.key(), body)
	if errors.Is(err, outbox.ErrNothingPending) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if unreadable != nil {
		w.log.Error(unreadable, "A message cannot be rendered and is dropped", "receiver", w.queue.key)
		w.answered = &answered{attempt: a, cause: DropUnreadable, text: unreadableText}
		return nil, w.settle()
	}
	return a, nil
}

// compose makes one message of the oldest pending entries, at most limit. If groups
// are to be apart, a group's message is one by itself.
func (w *worker) compose(limit int, apart bool) (*draft, error) {
	d := &draft{combiner: message.NewCombiner(), keys: sha256.New(), apart: apart}
	for d.entries < limit {
		size := min(pageSize, limit-d.entries)
		entries, err := w.outbox.Pending(w.marking, w.queue.key, d.last, size)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(entries) && !d.full; i++ {
			if err := d.add(&entries[i]); err != nil {
				w.log.Error(err, "A message in the ledger cannot be read", "receiver", w.queue.key)
			}
		}
		if len(entries) < size || d.full {
			break
		}
	}
	return d, nil
}

// draft is a message in the making.
type draft struct {
	combiner *message.Combiner
	entries  int
	readable int
	// last and newest are of the last entry.
	last   int64
	newest time.Time
	// keys digests the keys of all entries; firstKey is that of the first.
	keys     hash.Hash
	firstKey string
	// apart: a group's message is not taken in with others. full: no more is.
	apart, full bool
}

// add takes an entry into the message; of one that cannot be read nothing but
// that it was there.
func (d *draft) add(e *outbox.Entry) error {
	var m message.Message
	err := json.Unmarshal(e.Payload, &m)
	if d.apart && m.Group != nil {
		if d.full = true; d.entries > 0 {
			return nil
		}
	}
	if d.entries == 0 {
		d.firstKey = e.Key
	}
	d.entries++
	d.last, d.newest = e.ID, e.CreatedAt
	_, _ = io.WriteString(d.keys, e.Key+"\x00") // a hash does not fail
	if err != nil {
		return err
	}
	d.readable++
	d.combiner.Add(m)
	return nil
}

// key is the Idempotency-Key: that of the entry if there is but one, so that it is
// the same whenever the same Event is read again.
func (d *draft) key() string {
	if d.entries == 1 {
		return d.firstKey
	}
	const length = 16 // as alarm.Key
	return hex.EncodeToString(d.keys.Sum(nil)[:length])
}

var errNothingReadable = errors.New("nothing of the message can be read")

func (d *draft) render(n Notifier) ([]byte, error) {
	if d.readable == 0 {
		return nil, errNothingReadable
	}
	m := d.combiner.Message()
	return freeze(n, &m, d.newest)
}
