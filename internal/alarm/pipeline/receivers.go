package pipeline

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// Receiver is a receiver that exists.
type Receiver struct {
	// ID is its [alarm.ReceiverID].
	ID string
	// Since is when it was created. Occurrences before are not sent to it.
	Since time.Time
	// Repeats is true if it must get the messages of open groups again.
	Repeats bool
	// Acknowledges is true if it shows who acknowledged a group.
	Acknowledges bool
	// NamespaceLabels are the keys of the labels of namespaces by which it chooses a channel.
	NamespaceLabels []string
}

// recipient is a receiver of an alarm.
type recipient struct {
	Receiver
	key string
	// onlyEnd: it has the group open, and gets the occurrence only to resolve it.
	onlyEnd bool
}

// recipients returns the receivers with these keys that exist. Nothing waits for others.
func (m *matcher) recipients(keys []string) []recipient {
	all := make([]recipient, 0, len(keys))
	for _, key := range keys {
		if r, ok := m.receiver(key); ok {
			all = append(all, recipient{Receiver: r, key: key})
		}
	}
	return all
}

// entryKey returns the key of the entry about an occurrence.
func (r *recipient) entryKey(alarmUID string, occ *alarm.Occurrence) string {
	return alarm.Key(r.key, alarmUID, occ)
}

// handled reports whether the receiver needs no entry about an occurrence: it was handled
// before, or it is for a former receiver.
func (r *recipient) handled(before progress.Offsets, entryKey string, occ *alarm.Occurrence) bool {
	return r.isForFormer(occ) || r.covered(before, entryKey, occ)
}

// covered reports whether an earlier process handled an occurrence.
func (r *recipient) covered(before progress.Offsets, entryKey string, occ *alarm.Occurrence) bool {
	return before.Covers(r.ID, entryKey, occ.Position)
}

// isForFormer reports whether an occurrence happened before the receiver was created.
func (r *recipient) isForFormer(occ *alarm.Occurrence) bool { return occ.ObservedAt.Before(r.Since) }
