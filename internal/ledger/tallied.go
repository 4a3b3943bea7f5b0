package ledger

import "strings"

// tallied is how many there are: in all, and by what an alarm's key is made of, so
// that asking takes no longer where there are many.
type tallied struct {
	all                int64
	alarms, namespaces map[string]int64
}

func newTallied() tallied {
	return tallied{alarms: map[string]int64{}, namespaces: map[string]int64{}}
}

func (t *tallied) add(alarm string, n int64) {
	t.all += n
	addTo(t.alarms, alarm, n)
	addTo(t.namespaces, alarm[:strings.LastIndexByte(alarm, '/')+1], n)
}

func addTo(counts map[string]int64, key string, n int64) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

func (t *tallied) subtract(gone Tally) {
	for alarm, n := range gone {
		t.add(alarm, -n)
	}
}

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
func (l *Ledger) Size() Size {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	s := Size{Groups: l.memory.groups.all, Windows: l.memory.windows.all}
	for _, b := range l.memory.backlogs {
		s.Entries += b.Entries
	}
	for _, n := range l.memory.held {
		s.Held += n
	}
	return s
}
