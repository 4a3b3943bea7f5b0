package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// draft is a message or a batch under construction.
type draft struct {
	content
	ids  []int64
	keys []string
	// tenant is that of the first entry.
	tenant string
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
	if len(d.ids) == 0 {
		d.tenant = e.Tenant
	}
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

func decode(e *outbox.Entry) (*message.Part, error) {
	var m message.Part
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// groupState returns what the delivery of a message changes in its group.
func groupState(n Notifier, m *message.Message) outbox.GroupState {
	s := outbox.GroupState{Resolves: IsResolved(m), Remember: remember(n, m)}
	if m.Group != nil {
		s.Group = m.Group.Key
	}
	return s
}

// choice is what happens to an entry that is offered to a draft: whether it is taken, and whether
// later entries are offered.
type choice struct{ take, more bool }

// chooser chooses entries. The message is nil if it cannot be read.
type chooser func(*outbox.Entry, *message.Part) (choice, error)

// collect offers pages of entries to a draft, until it has enough. read returns the next page, which has
// at most size entries.
func (d *draft) collect(limit int, read func(size int) ([]outbox.Entry, error), choose chooser) error {
	for len(d.ids) < limit {
		entries, err := read(limit - len(d.ids))
		if len(entries) == 0 || err != nil {
			return err
		}
		if more, err := d.offer(entries, choose); !more || err != nil {
			return err
		}
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

// setGroup replaces the state of a group by a later one, unless that changes nothing.
func (d *draft) setGroup(s outbox.GroupState) {
	if !s.Resolves && s.Remember == nil {
		return
	}
	d.Groups = slices.DeleteFunc(d.Groups, func(former outbox.GroupState) bool { return former.Group == s.Group })
	d.Groups = append(d.Groups, s)
}

// takeNow takes the permission for one message from all limits, unless it must wait.
func (d *draft) takeNow(limits []*rate.Limiter, now time.Time) bool {
	reservations, delay := reserve(limits, now)
	undo := func() { cancelAll(reservations, now) } // a limiter ignores a cancellation at a later time
	if delay > 0 {
		undo()
		return false
	}
	d.undo = append(d.undo, undo)
	return true
}

func (d *draft) returnPermissions() {
	for _, undo := range d.undo {
		undo()
	}
	d.undo = nil
}
