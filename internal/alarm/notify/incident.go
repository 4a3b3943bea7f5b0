package notify

import (
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Coalescer is a Notifier whose receiver needs only the newest of several messages about one
// incident, because each replaces the one before. An example is PagerDuty. The messages of an
// incident that wait are combined, so that those of others do not wait for each of them.
type Coalescer interface {
	Notifier
	// Incident returns what the receiver knows the incident of a message by. It is empty if the
	// message has an incident of its own.
	Incident(m *message.Message) string
}

// incidentState is the state of an incident after a message. Messages with different states are
// not combined: the incident could otherwise stay open, or never begin.
type incidentState struct {
	resolved, acknowledged bool
	since                  int64
}

func stateOf(m *message.Message) incidentState {
	if m.Group == nil {
		return incidentState{}
	}
	return incidentState{resolved: m.Group.Resolved, acknowledged: m.Acknowledged != nil, since: m.Group.Since.UnixMicro()}
}

// incident combines the oldest message of the main lane with all that wait about
// the same incident. Messages about others stay pending, also those between them. It returns nil
// if there is only one message, or if the receiver needs each.
func (w *worker) incident(c config) (*draft, error) {
	n, ok := c.receiver.Notifier.(Coalescer)
	limit := w.lane.maxDigest()
	if !ok || limit < 2 || w.outbox.Backlog(w.queue.key).Entries < 2 {
		return nil, nil
	}
	d, of, state := newDraft(true), "", incidentState{}
	err := d.collect(limit, w.pendingAbout(d), func(e *outbox.Entry, m *message.Part) (choice, error) {
		switch {
		case m == nil, len(d.ids) == 0 && w.lane.singles[e.ID]:
			return choice{}, nil
		case len(d.ids) == 0:
			of, state = n.Incident(&m.Message), stateOf(&m.Message)
			return choice{of != "", of != ""}, nil
		case n.Incident(&m.Message) != of:
			return choice{false, true}, nil
		default:
			same := stateOf(&m.Message) == state
			return choice{same, same}, nil
		}
	})
	if err != nil || len(d.ids) < 2 || w.renderAll(c, d) != nil {
		return nil, err // the first is then sent alone, or dropped
	}
	return d, nil
}

// pendingAbout reads the first entry, and then pages of those with its subject.
func (w *worker) pendingAbout(d *draft) func(size int) ([]outbox.Entry, error) {
	first, after := w.pending(), int64(0)
	return func(size int) (entries []outbox.Entry, err error) {
		if len(d.ids) == 0 {
			entries, err = first(1)
		} else {
			entries, err = w.outbox.Pending(w.storage, outbox.Query{Receiver: w.queue.key, About: d.ids[0], After: after, Limit: min(size, pageSize)})
		}
		if len(entries) > 0 {
			after = entries[len(entries)-1].ID
		}
		return entries, err
	}
}
