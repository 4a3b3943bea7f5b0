package outbox

import "strings"

// Size is how much there is.
type Size struct {
	// Entries are messages to be sent, Held what waits in groups, or is a part of a
	// message of one.
	Entries, Held int64
	// Groups are those that are open, of each receiver, and Windows what thresholds
	// remember.
	Groups, Windows int64
}

// Size returns how much there is, from memory.
func (l *Store) Size() Size {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	s := Size{Groups: l.memory.groups.all(), Windows: l.memory.windows.all()}
	for _, b := range l.memory.backlogs {
		s.Entries += b.Entries
	}
	for _, n := range l.memory.held {
		s.Held += n
	}
	return s
}

// all is how many there are of all namespaces.
func (t totals) all() (sum int64) {
	for of, n := range t {
		if strings.HasSuffix(of, "/") {
			sum += n
		}
	}
	return sum
}
