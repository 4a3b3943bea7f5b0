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

// State describes the position and the leader's term.
type State struct {
	// ClusterUID is the cluster that positions belong to; empty in a new outbox.
	ClusterUID string
	// Epoch is the token of the term in which this outbox was last written. NextEpoch is
	// a token that is claimed and not yet confirmed. Both can be empty.
	Epoch, NextEpoch string
	// Position is the resourceVersion up to which Events are committed.
	Position uint64
	// Time is the last Batch.Time.
	Time time.Time
	// Newest is the time of the newest occurrence up to Position.
	Newest time.Time
	// CountsKnown is true if the counts are complete as of Position.
	CountsKnown bool
	// Delivered contains the delivered offsets of the last Replay.
	Delivered DeliveredOffsets
	// History names the history that positions belong to. It changes when etcd is
	// restored to an older state. Positions of different histories are not comparable.
	History string
}

// Covers reports whether this outbox handled an occurrence while its replica led: the
// message waits here, was sent, or was known to be sent.
func (s State) Covers(receiver, key string, position uint64) bool {
	return position <= s.Position || s.Delivered.Covers(receiver, key, position)
}

// DeliveredOffsets are the positions up to which a replay must not create entries again:
// their messages were sent or already wait here. Offsets below the current position have
// no effect.
type DeliveredOffsets struct {
	// Default is the offset of receivers that are not in Receivers.
	Default   uint64            `json:"default,omitempty"`
	Receivers map[string]uint64 `json:"receivers,omitempty"`
	// Waiting contains, for each receiver, the occurrences at or below its offset that
	// were not sent.
	Waiting map[string]Held `json:"waiting,omitempty"`
}

// Covers reports whether the occurrence with the key, at the position, needs no new
// entry.
func (d DeliveredOffsets) Covers(receiver, key string, position uint64) bool {
	_, waits := d.Waiting[receiver][key]
	return position <= d.Offset(receiver) && !waits
}

// passedBy reports whether no offset is after the position.
func (d DeliveredOffsets) passedBy(position uint64) bool {
	for _, offset := range d.Receivers {
		if offset > position {
			return false
		}
	}
	return d.Default <= position
}

// Offset returns the offset of a receiver.
func (d DeliveredOffsets) Offset(receiver string) uint64 {
	if position, ok := d.Receivers[receiver]; ok {
		return position
	}
	return d.Default
}

// Claim stores the token of a new term before the checkpoint contains it. After a crash
// in between, the outbox knows both tokens.
func (s *Store) Claim(ctx context.Context, epoch string) error {
	return s.changeState(ctx, "claim an epoch", func(s *State) { s.NextEpoch = epoch })
}

// Confirm makes the claimed epoch the current one. It does nothing without a claim.
func (s *Store) Confirm(ctx context.Context) error {
	return s.changeState(ctx, "confirm the epoch", func(s *State) {
		if s.NextEpoch != "" {
			s.Epoch, s.NextEpoch = s.NextEpoch, ""
		}
	})
}

// Replay sets the position, which can be an earlier one, and its history. If either
// changes, Replay removes counts, windows and groups, which belong to the former
// position.
func (s *Store) Replay(ctx context.Context, history string, position uint64, delivered DeliveredOffsets) error {
	return s.write(ctx, "set the position", func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		if position != state.Position || history != state.History {
			if err := tx.empty(ctx, "event_count", "window", "open_group"); err != nil {
				return err
			}
			tx.after(func(m *memory) { m.groups, m.windows = totals{}, totals{} })
			state.Time, state.Newest, state.CountsKnown = time.Time{}, time.Time{}, false
		}
		state.History, state.Position, state.Delivered = history, position, delivered
		return tx.setState(ctx, state)
	})
}

// Reset removes everything. The outbox is then empty, belongs to a cluster, and has a
// position and no epoch.
func (s *Store) Reset(ctx context.Context, clusterUID string, position uint64) error {
	return s.write(ctx, "reset", func(ctx context.Context, tx *tx) error {
		if err := tx.empty(ctx, "attempt", "entry", "held", "event_count", "window", "open_group", "digested"); err != nil {
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

func (s *Store) changeState(ctx context.Context, what string, change func(*State)) error {
	return s.write(ctx, what, func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		change(&state)
		return tx.setState(ctx, state)
	})
}

const selectState = `SELECT cluster, epoch, next_epoch, position, time, newest, counts_known, delivered, history FROM state`

func (tx *tx) state(ctx context.Context) (State, error) {
	return scanState(tx.row(ctx, selectState))
}

func scanState(row scanner) (s State, err error) {
	err = row.Scan(&s.ClusterUID, &s.Epoch, &s.NextEpoch, &s.Position,
		timestamp{&s.Time}, timestamp{&s.Newest}, &s.CountsKnown, jsonColumn{&s.Delivered}, &s.History)
	return s, err
}

func (tx *tx) setState(ctx context.Context, state State) error {
	delivered, err := json.Marshal(state.Delivered)
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE state SET cluster = ?, epoch = ?, next_epoch = ?, position = ?, time = ?, newest = ?, counts_known = ?, delivered = ?, history = ?`,
		state.ClusterUID, state.Epoch, state.NextEpoch, state.Position, micros(state.Time), micros(state.Newest), state.CountsKnown, string(delivered), state.History)
	tx.after(func(m *memory) { m.state = state })
	return err
}

// Backlog describes the entries of a receiver, pending or prepared.
type Backlog struct {
	// Entries is their number; never 0 in a Snapshot.
	Entries int64
	// Lowest is their lowest position. Everything below it is delivered.
	Lowest uint64
}

// Snapshot is the committed state at one moment.
type Snapshot struct {
	State
	// Backlogs by receiver. Receivers without entries are not in it.
	Backlogs map[string]Backlog
}

// memory keeps values that are read often, so that reading them needs no query. It
// changes only after a commit. This process is the only writer.
type memory struct {
	mu       sync.RWMutex
	state    State
	backlogs map[string]Backlog
	// held is the number of occurrences in groups, or in messages of groups, by receiver.
	// groups and windows are the numbers of open ones.
	held            map[string]int64
	groups, windows totals
}

// totals are numbers by alarm. The part of a name up to the last slash is the key for all
// alarms of a namespace.
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

// Snapshot returns state and backlogs of the same moment, from memory. Read separately,
// the position could be ahead of an entry that it covers.
func (s *Store) Snapshot() Snapshot {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return Snapshot{State: s.memory.state, Backlogs: maps.Clone(s.memory.backlogs)}
}

// State returns the state, from memory.
func (s *Store) State() State {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.state
}

// Backlog returns the backlog of a receiver, from memory. It is zero if nothing waits.
func (s *Store) Backlog(receiver string) Backlog {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.backlogs[receiver]
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
		count(ctx, db, `SELECT alarm, count(*) FROM open_group GROUP BY alarm`, m.groups.add),
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

// count calls found with each row of a query.
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

// Waiting returns the number of entries of a receiver plus its occurrences in groups and
// in messages of groups, from memory.
func (s *Store) Waiting(receiver string) int64 {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.backlogs[receiver].Entries + s.memory.held[receiver]
}

// Groups returns the number of open groups and windows of an alarm, from memory. Given
// the part of an alarm's name up to the last slash, it returns the number for all alarms
// of the namespace.
func (s *Store) Groups(alarm string) int64 {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.groups[alarm] + s.memory.windows[alarm]
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

// unheld subtracts occurrences that no longer wait in groups or in their messages.
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

// Size describes how much the outbox contains.
type Size struct {
	// Entries are messages to send. Held are occurrences in groups, or in messages of
	// groups.
	Entries, Held int64
	// Groups are the open groups of all receivers. Windows are the states of thresholds.
	Groups, Windows int64
}

// Size returns how much the outbox contains, from memory.
func (s *Store) Size() Size {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	size := Size{Groups: s.memory.groups.all(), Windows: s.memory.windows.all()}
	for _, b := range s.memory.backlogs {
		size.Entries += b.Entries
	}
	for _, n := range s.memory.held {
		size.Held += n
	}
	return size
}

// all returns the sum over all namespaces.
func (t totals) all() (sum int64) {
	for of, n := range t {
		if strings.HasSuffix(of, "/") {
			sum += n
		}
	}
	return sum
}
