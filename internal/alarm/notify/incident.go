package notify

import (
	"encoding/json"
	"errors"

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

// maxRepeats limits the messages about one incident that are combined.
const maxRepeats = 1_000

// incidentDraft is a message under construction that combines those about one incident.
type incidentDraft struct {
	incident string
	// state is that of all messages.
	state incidentState
	ids   []int64
	keys  []string
	// latest combines the messages.
	latest *message.Latest
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

// nextIncident prepares the oldest message of the main lane together with all that wait about
// the same incident. Messages about others stay pending, also those between them. It returns nil
// if there is only one message, or if the receiver needs each.
func (w *worker) nextIncident(c config) (*outbox.Attempt, error) {
	n, ok := c.receiver.Notifier.(Coalescer)
	limit := min(w.lane.maxDigest(), maxRepeats)
	if !ok || limit < 2 || w.outbox.Backlog(w.queue.key).Entries < 2 {
		return nil, nil
	}
	d, err := w.beginIncident(n)
	if d == nil || err != nil {
		return nil, err
	}
	for last, more := d.ids[0], true; more; {
		size := min(pageSize, limit-len(d.ids))
		entries, err := w.outbox.PendingAbout(w.storage, w.queue.key, d.ids[0], last, size)
		if err != nil {
			return nil, err
		}
		if more = d.addAll(n, entries) && len(entries) == size && len(d.ids) < limit; more {
			last = entries[size-1].ID
		}
	}
	if len(d.ids) < 2 {
		return nil, nil
	}
	m := d.latest.Message()
	body, err := w.encodeBody(c, &m)
	if err != nil {
		return nil, nil // the first is then sent alone, or dropped
	}
	a, err := w.outbox.PreparePicked(w.storage, w.queue.key, d.ids, combinedKey("incident", d.keys), body)
	if errors.Is(err, outbox.ErrNothingPending) || errors.Is(err, outbox.ErrTooManyPrepared) {
		return nil, nil // one message can still have the space
	}
	return a, err
}

// beginIncident begins with the oldest pending message. It returns nil if that must be sent
// alone.
func (w *worker) beginIncident(n Coalescer) (*incidentDraft, error) {
	head, err := w.outbox.Pending(w.storage, w.queue.key, w.lane.id, 0, 1)
	if err != nil || len(head) == 0 || head[0].ID <= w.lane.single {
		return nil, err
	}
	var m message.Part
	if json.Unmarshal(head[0].Payload, &m) != nil {
		return nil, nil
	}
	d := &incidentDraft{incident: n.Incident(&m.Message), state: stateOf(&m.Message), latest: message.NewLatest()}
	if d.incident == "" {
		return nil, nil
	}
	d.add(&head[0], m)
	return d, nil
}

// addAll adds the messages that are about the incident. It returns false if no further one may
// be added.
func (d *incidentDraft) addAll(n Coalescer, entries []outbox.Entry) bool {
	for i := range entries {
		var m message.Part
		if json.Unmarshal(entries[i].Payload, &m) != nil {
			return false
		}
		if n.Incident(&m.Message) != d.incident {
			continue
		}
		if stateOf(&m.Message) != d.state {
			return false
		}
		d.add(&entries[i], m)
	}
	return true
}

func (d *incidentDraft) add(e *outbox.Entry, m message.Part) {
	d.ids = append(d.ids, e.ID)
	d.keys = append(d.keys, e.Key)
	d.latest.Add(m)
}
