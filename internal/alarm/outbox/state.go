package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"
)

// State is what the ledger knows of its feed and its leader.
type State struct {
	// ClusterUID names the cluster that positions belong to; empty in a new ledger.
	ClusterUID string
	// Epoch is the token of the leadership that this ledger was last written
	// under, NextEpoch the one that was claimed and not yet confirmed; either may
	// be empty.
	Epoch, NextEpoch string
	// Position is how far the feed was read.
	Position uint64
	// Time is the last Batch.Time.
	Time time.Time
	// Newest is when the newest of what was read up to Position happened.
	Newest time.Time
	// Counted says that the counts are complete as of Position.
	CountsKnown bool
	// Floors are those of the last Replay.
	Delivered DeliveredOffsets
	// History names the history that positions are of: it changes when the API
	// server's store was put back to an older state. Positions of two histories
	// cannot be compared.
	History string
}

// Accounts says whether the ledger knew what became of an entry when it was led: it
// holds it, has sent it, or knew that it was sent.
func (s State) Covers(receiver, key string, position uint64) bool {
	return position <= s.Position || s.Delivered.Covers(receiver, key, position)
}

// Floors are, in a replay, the positions up to which all is accounted for already,
// be it sent or pending here: entries at or below are not made again. Those that
// the feed has passed have no effect.
type DeliveredOffsets struct {
	// Default is that of a receiver that is not in Receivers.
	Default   uint64            `json:"default,omitempty"`
	Receivers map[string]uint64 `json:"receivers,omitempty"`
	// Waiting is, by receiver, what is at or below its floor and was not sent.
	Waiting map[string]Held `json:"waiting,omitempty"`
}

// Served says whether what has the key, and happened at the position, is accounted
// for.
func (f DeliveredOffsets) Covers(receiver, key string, position uint64) bool {
	_, waits := f.Waiting[receiver][key]
	return position <= f.Of(receiver) && !waits
}

// passed says whether nothing beyond a position is accounted for.
func (f DeliveredOffsets) passedBy(position uint64) bool {
	for _, floor := range f.Receivers {
		if floor > position {
			return false
		}
	}
	return f.Default <= position
}

// Of returns the floor of a receiver.
func (f DeliveredOffsets) Of(receiver string) uint64 {
	if position, ok := f.Receivers[receiver]; ok {
		return position
	}
	return f.Default
}

// Claim stores the token of a leadership that begins, before it is published: a
// crash in between leaves a ledger that knows both tokens.
func (l *Store) Claim(ctx context.Context, epoch string) error {
	return l.changeState(ctx, "claiming an epoch", func(s *State) { s.NextEpoch = epoch })
}

// Confirm makes the claimed epoch the current one. Without a claim it does nothing.
func (l *Store) Confirm(ctx context.Context) error {
	return l.changeState(ctx, "confirming the epoch", func(s *State) {
		if s.NextEpoch != "" {
			s.Epoch, s.NextEpoch = s.NextEpoch, ""
		}
	})
}

// Replay moves the feed's position, backwards too, to one of the given history.
// Counts and windows, which are of the former position, are forgotten if it is
// another one.
func (l *Store) Replay(ctx context.Context, history string, position uint64, floors DeliveredOffsets) error {
	return l.write(ctx, "setting the position", func(ctx context.Context, tx *tx) error {
		s, err := tx.state(ctx)
		if err != nil {
			return err
		}
		if position != s.Position || history != s.History {
			if err := tx.empty(ctx, "event_count", "window", "grp"); err != nil {
				return err
			}
			tx.after(func(m *memory) { m.groups, m.windows = totals{}, totals{} })
			s.Time, s.Newest, s.CountsKnown = time.Time{}, time.Time{}, false
		}
		s.History, s.Position, s.Delivered = history, position, floors
		return tx.setState(ctx, s)
	})
}

// Reset makes this the empty ledger of a cluster, at a position and without an
// epoch: everything it held is dropped.
func (l *Store) Reset(ctx context.Context, clusterUID string, position uint64) error {
	return l.write(ctx, "resetting", func(ctx context.Context, tx *tx) error {
		if err := tx.empty(ctx, "attempt", "entry", "held", "event_count", "window", "grp", "digested"); err != nil {
			return err
		}
		tx.after(func(m *memory) {
			m.backlogs, m.held = map[string]Backlog{}, map[string]int64{}
			m.groups, m.windows = totals{}, totals{}
		})
		return tx.setState(ctx, State{ClusterUID: clusterUID, Position: position})
	})
}

func (tx *tx) empty(ctx context.Context, tables ...string) error {
	for _, table := range tables {
		if _, err := tx.exec(ctx, `DELETE FROM `+table); err != nil {
			return err
		}
	}
	return nil
}

func (l *Store) changeState(ctx context.Context, what string, change func(*State)) error {
	return l.write(ctx, what, func(ctx context.Context, tx *tx) error {
		s, err := tx.state(ctx)
		if err != nil {
			return err
		}
		change(&s)
		return tx.setState(ctx, s)
	})
}

const selectState = `SELECT cluster, epoch, next_epoch, position, time, newest, counted, floors, history FROM state`

func (tx *tx) state(ctx context.Context) (State, error) {
	return scanState(tx.row(ctx, selectState))
}

func scanState(row scanner) (s State, err error) {
	err = row.Scan(&s.ClusterUID, &s.Epoch, &s.NextEpoch, &s.Position,
		timestamp{&s.Time}, timestamp{&s.Newest}, &s.CountsKnown, jsonColumn{&s.Delivered}, &s.History)
	return s, err
}

func (tx *tx) setState(ctx context.Context, s State) error {
	floors, err := json.Marshal(s.Delivered)
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE state SET cluster = ?, epoch = ?, next_epoch = ?, position = ?, time = ?, newest = ?, counted = ?, floors = ?, history = ?`,
		s.ClusterUID, s.Epoch, s.NextEpoch, s.Position, micros(s.Time), micros(s.Newest), s.CountsKnown, string(floors), s.History)
	tx.after(func(m *memory) { m.state = s })
	return err
}

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
