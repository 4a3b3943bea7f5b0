package outbox

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"strings"
	"sync"
)

// Backlog is what a receiver has before it: pending and frozen entries.
type Backlog struct {
	// Entries is how many; never 0.
	Entries int64
	// Lowest is the lowest position of them: all below it is done.
	Lowest uint64
}

// Snapshot is the ledger at one moment: all that is committed, nothing else.
type Snapshot struct {
	State
	// Backlogs by receiver; those with nothing to send are not in it.
	Backlogs map[string]Backlog
}

// memory mirrors what is asked for often, so that asking costs no query. It
// changes only after a transaction was committed: this process is the only
// writer.
type memory struct {
	mu       sync.RWMutex
	state    State
	backlogs map[string]Backlog
	// held is how much waits in groups and their messages, by receiver; groups and
	// windows are how many there are.
	held            map[string]int64
	groups, windows totals
}

// tallied is how many there are, by alarm, and of all alarms of a namespace by what
// their names begin with, up to the last slash.
type totals map[string]int64

func (t totals) add(alarm string, n int64) {
	for _, of := range []string{alarm, alarm[:strings.LastIndexByte(alarm, '/')+1]} {
		if t[of] += n; t[of] == 0 {
			delete(t, of)
		}
	}
}

func (t totals) subtract(gone Counts) {
	for alarm, n := range gone {
		t.add(alarm, -n)
	}
}

// Snapshot returns state and backlogs as of one moment, from memory: a position
// read apart from the backlogs could be ahead of an entry that it covers.
func (l *Store) Snapshot() Snapshot {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	return Snapshot{State: l.memory.state, Backlogs: maps.Clone(l.memory.backlogs)}
}

// State returns the state, from memory.
func (l *Store) State() State {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	return l.memory.state
}

// Backlog returns what the receiver has before it, from memory; zero is nothing.
func (l *Store) Backlog(receiver string) Backlog {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	return l.memory.backlogs[receiver]
}

const selectBacklogs = `SELECT receiver, count(*), min(position) FROM entry GROUP BY receiver`

func (m *memory) load(ctx context.Context, db *sql.DB) error {
	var err error
	if m.state, err = scanState(db.QueryRowContext(ctx, selectState)); err != nil {
		return err
	}
	m.held, m.groups, m.windows = map[string]int64{}, totals{}, totals{}
	err = errors.Join(
		count(ctx, db, `SELECT receiver, count(*) FROM held GROUP BY receiver`, func(receiver string, n int64) { m.held[receiver] = n }),
		count(ctx, db, `SELECT alarm, count(*) FROM grp GROUP BY alarm`, m.groups.add),
		count(ctx, db, `SELECT alarm, count(*) FROM window GROUP BY alarm`, m.windows.add))
	if err != nil {
		return err
	}
	m.backlogs = map[string]Backlog{}
	rows, err := db.QueryContext(ctx, selectBacklogs)
	return each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		var b Backlog
		if err := rows.Scan(&receiver, &b.Entries, &b.Lowest); err != nil {
			return err
		}
		m.backlogs[receiver] = b
		return nil
	})
}

// count calls found with what a query returns.
func count(ctx context.Context, db *sql.DB, query string, found func(of string, n int64)) error {
	rows, err := db.QueryContext(ctx, query)
	return each(rows, err, func(rows *sql.Rows) error {
		var of string
		var n int64
		err := rows.Scan(&of, &n)
		found(of, n)
		return err
	})
}

// Waiting returns how much the receiver has before it, from memory: entries, and what
// waits in groups or is a part of their messages.
func (l *Store) Waiting(receiver string) int64 {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	return l.memory.backlogs[receiver].Entries + l.memory.held[receiver]
}

// Groups returns how much is remembered of an alarm's groups, of each of its receivers
// and of its threshold, from memory; or of those of all alarms of a namespace, which is
// named by an Entry.Alarm up to its last slash.
func (l *Store) Groups(alarm string) int64 {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	return l.memory.groups[alarm] + l.memory.windows[alarm]
}

// apply makes the changes of a committed transaction visible, all at once.
func (m *memory) apply(changes []func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, change := range changes {
		change(m)
	}
}

func (m *memory) added(receiver string, position uint64) {
	b, ok := m.backlogs[receiver]
	if !ok || position < b.Lowest {
		b.Lowest = position
	}
	b.Entries++
	m.backlogs[receiver] = b
}

// left says that so much of what waited in groups or their messages no longer does.
func (m *memory) unheld(receiver string, n int64) {
	if m.held[receiver] -= n; m.held[receiver] == 0 {
		delete(m.held, receiver)
	}
}

func (m *memory) removed(receiver string, entries int64, lowest uint64) {
	b := Backlog{Entries: m.backlogs[receiver].Entries - entries, Lowest: lowest}
	if b.Entries == 0 {
		delete(m.backlogs, receiver)
		return
	}
	m.backlogs[receiver] = b
}
