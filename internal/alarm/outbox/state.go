package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
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
	return position <= s.Position || s.Delivered.Covers(key, position, receiver)
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

// Covers reports whether the occurrence with the key, at the position, needs no new entry for
// the receiver that has these IDs.
func (d DeliveredOffsets) Covers(key string, position uint64, ids ...string) bool {
	for _, id := range ids {
		if _, waits := d.Waiting[id][key]; waits {
			return false
		}
	}
	return position <= d.Offset(ids...)
}

// offsets are delivered offsets by stream. The name of that of Events is empty.
type offsets map[string]DeliveredOffsets

func (d DeliveredOffsets) ofEvents() offsets { return offsets{"": d} }

// cover is Covers for an occurrence of a stream. It is false if the stream has no offsets.
func (o offsets) cover(stream, receiver, key string, position uint64) bool {
	d, ok := o[stream]
	return ok && d.Covers(key, position, receiver)
}

// Awaits reports whether an earlier process recorded that the occurrence waits for the
// receiver that has these IDs.
func (d DeliveredOffsets) Awaits(key string, position uint64, ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool {
		_, waits := d.Waiting[id][key]
		offset, behind := d.Receivers[id]
		return waits || behind && offset < position && position <= d.Default
	})
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

// Offset returns the offset of the receiver that has these IDs: the lowest of those that are known.
// A receiver that was awaited has two. See [alarm.AwaitedID].
func (d DeliveredOffsets) Offset(ids ...string) uint64 {
	lowest, found := d.Default, false
	for _, id := range ids {
		if position, ok := d.Receivers[id]; ok && (!found || position < lowest) {
			lowest, found = position, true
		}
	}
	return lowest
}

// Renamed returns the offsets under other IDs of receivers: of each ID in renames, it moves what
// waits to the other ID. It does not change d.
func (d DeliveredOffsets) Renamed(renames map[string]string) DeliveredOffsets {
	d.Receivers, d.Waiting = maps.Clone(d.Receivers), maps.Clone(d.Waiting)
	for from, to := range renames {
		if position, ok := d.Receivers[from]; ok {
			delete(d.Receivers, from)
			if present, ok := d.Receivers[to]; !ok || position < present {
				d.Receivers[to] = position
			}
		}
		if held, ok := d.Waiting[from]; ok {
			delete(d.Waiting, from)
			all := maps.Clone(held)
			maps.Copy(all, d.Waiting[to])
			d.Waiting[to] = all
		}
	}
	return d
}

// Claim stores the token of a new term before the checkpoint contains it. After a crash
// in between, the outbox knows both tokens.
func (s *Store) Claim(ctx context.Context, epoch string) error {
	return s.changeState(ctx, "claim an epoch", func(s *State) { s.NextEpoch = epoch })
}

// Confirm makes the claimed epoch the current one, if there is a claim. From now on, the
// counts are visible: see [Store.StatusCounts].
func (s *Store) Confirm(ctx context.Context) error {
	return s.changeState(ctx, "confirm the epoch", func(s *State) {
		if s.NextEpoch != "" {
			s.Epoch, s.NextEpoch = s.NextEpoch, ""
		}
	}, (*memory).confirm)
}

// Replay sets the position, which can be an earlier one, and its history. If either
// changes, Replay removes counts of Events, windows and groups, which belong to the former
// position. It removes the counts for the status, because another leader has counted on. ReplayStreams does
// the same for changes.
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
			tx.after(func(m *memory) { m.clearState() })
			state.Time, state.Newest, state.CountsKnown = time.Time{}, time.Time{}, false
		}
		if err := tx.empty(ctx, "status_count"); err != nil {
			return err
		}
		tx.after(func(m *memory) { clear(m.counted) })
		state.History, state.Position, state.Delivered = history, position, delivered
		return tx.setState(ctx, state)
	})
}

// Reset removes everything. The outbox is then empty, belongs to a cluster, and has a
// position and no epoch.
func (s *Store) Reset(ctx context.Context, clusterUID string, position uint64) error {
	return s.write(ctx, "reset", func(ctx context.Context, tx *tx) error {
		if err := tx.empty(ctx, "attempt", "entry", "held", "parked", "awaited", "event_count", "window", "open_group", "digested", "status_count", "stream", "baseline", "shape", "lasting"); err != nil {
			return err
		}
		tx.after(func(m *memory) {
			m.backlogs, m.held, m.heldChanges = map[string]Backlog{}, map[string]int64{}, map[string]int64{}
			m.prepared = totals{}
			m.clearParked()
			m.clearBaselines()
			clear(m.counted)
			m.clearState()
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

func (s *Store) changeState(ctx context.Context, what string, change func(*State), after ...func(*memory)) error {
	return s.write(ctx, what, func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		change(&state)
		tx.changes = append(tx.changes, after...)
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
	// Lowest is the lowest position in the main lane, 0 if that is empty. Everything below it
	// is delivered, except what HeldKeys returns.
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
	// heldChanges are those of changes. groups and windows are the numbers of open ones.
	held            map[string]int64
	heldChanges     map[string]int64
	groups, windows totals
	// stateBytes is the size of groups and windows, by budget, and stateSum that of all.
	stateBytes map[string]int64
	stateSum   int64
	// parked is the number of parked occurrences by namespace, parkedBytes their bytes by
	// budget, and parkedSum the bytes of all.
	parked, parkedBytes map[string]int64
	parkedSum           int64
	// baselineBytes is the size of baselines by namespace, and baselineSum that of all.
	baselineBytes map[string]int64
	baselineSum   int64
	// lasting is the number of states by namespace, and lastingSum that of all.
	lasting    map[string]int64
	lastingSum int64
	// prepared is the size of prepared messages, by receiver.
	prepared totals
	// counted are the counts of each subject, and recounted those that changed. confirmed is
	// false before Confirm.
	counted   map[string]countedSubject
	recounted map[string]struct{}
	confirmed bool
	// forgotTo is the time before which groups were removed last, and forgotAt when.
	forgotTo, forgotAt time.Time
	// silenced is the result of TakeSilenced.
	silenced int64
	// groupSent is the result of GroupSent.
	groupSent chan struct{}
}

func (m *memory) lastForgot() (to, at time.Time) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.forgotTo, m.forgotAt
}

// preparedFor returns the size of the prepared messages for all receivers of the namespace
// of a receiver.
func (m *memory) preparedFor(receiver string) int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.prepared[namespaceOf(receiver)]
}

// totals are numbers by alarm or receiver. The part of a name up to the last slash is the
// key for all of a namespace.
type totals map[string]int64

func namespaceOf(name string) string { return name[:strings.LastIndexByte(name, '/')+1] }

func (t totals) add(alarm string, n int64) {
	for _, of := range []string{alarm, namespaceOf(alarm)} {
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

// addIn is add, and also counts those of the alarm in a budget.
func (t totals) addIn(budget, alarm string, n int64) {
	t.add(alarm, n)
	of := inBudget(budget, alarm)
	if t[of] += n; t[of] == 0 {
		delete(t, of)
	}
}

// inBudget is the key of the number of an alarm in a budget. It is not that of an alarm or of a namespace.
func inBudget(budget, alarm string) string { return budget + " " + alarm }

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

const selectBacklogs = `SELECT receiver, count(*), coalesce(min(iif(aside = 0, position, NULL)), 0) FROM entry GROUP BY receiver`

func (m *memory) load(ctx context.Context, db *sql.DB) error {
	var err error
	if m.state, err = scanState(db.QueryRowContext(ctx, selectState)); err != nil {
		return err
	}
	m.held, m.heldChanges, m.prepared = map[string]int64{}, map[string]int64{}, totals{}
	m.clearState()
	m.clearParked()
	m.clearBaselines()
	err = errors.Join(
		m.loadCounts(ctx, db),
		count(ctx, db, `SELECT namespace, count(*) FROM parked GROUP BY namespace`, func(of string, n int64) { m.addParked(of, "", n, 0) }),
		count(ctx, db, `SELECT budget, sum(bytes) FROM parked GROUP BY budget`, func(of string, n int64) { m.addParked("", of, 0, n) }),
		count(ctx, db, `SELECT receiver, count(*) FROM held GROUP BY receiver`, func(receiver string, n int64) { m.addHeld(receiver, n, 0) }),
		count(ctx, db, `SELECT receiver, count(*) FROM held WHERE stream <> '' GROUP BY receiver`, func(receiver string, n int64) { m.addHeld(receiver, 0, n) }),
		countIn(ctx, db, `SELECT budget, alarm, count(*) FROM open_group GROUP BY budget, alarm`, m.groups.addIn),
		count(ctx, db, `SELECT namespace, sum(bytes) FROM baseline GROUP BY namespace`, m.addBaseline),
		count(ctx, db, `SELECT namespace, sum(bytes) FROM lasting GROUP BY namespace`, m.addBaseline),
		count(ctx, db, `SELECT namespace, count(*) FROM lasting GROUP BY namespace`, m.addLasting),
		count(ctx, db, `SELECT receiver, `+sizeOfAttempt+` FROM attempt`, m.prepared.add),
		count(ctx, db, `SELECT budget, sum(bytes) FROM open_group GROUP BY budget`, m.addState),
		count(ctx, db, `SELECT budget, sum(bytes) FROM window GROUP BY budget`, m.addState),
		countIn(ctx, db, `SELECT budget, alarm, count(*) FROM window GROUP BY budget, alarm`, m.windows.addIn))
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

// countIn is count for queries of two texts and a number.
func countIn(ctx context.Context, db *sql.DB, query string, found func(in, of string, n int64)) error {
	rows, err := db.QueryContext(ctx, query)
	return each(rows, err, func(rows *sql.Rows) error {
		var in, of string
		var n int64
		err := rows.Scan(&in, &of, &n)
		found(in, of, n)
		return err
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

// GroupsIn is Groups for those of an alarm that use the space of a budget.
func (s *Store) GroupsIn(budget, alarm string) int64 { return s.Groups(inBudget(budget, alarm)) }

// GroupsBeyond returns how many groups and windows of an alarm there are beyond a number in each
// budget. It reads all counts.
func (s *Store) GroupsBeyond(alarm string, number int64) (sum int64) {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	counts := map[string]int64{}
	for _, all := range []totals{s.memory.groups, s.memory.windows} {
		for of, n := range all {
			if strings.HasSuffix(of, inBudget("", alarm)) {
				counts[of] += n
			}
		}
	}
	for _, n := range counts {
		sum += max(0, n-number)
	}
	return sum
}

// addState adds bytes of groups and windows to a budget.
func (m *memory) addState(budget string, bytes int64) {
	m.stateSum += bytes
	if m.stateBytes[budget] += bytes; m.stateBytes[budget] == 0 {
		delete(m.stateBytes, budget)
	}
}

func (m *memory) clearState() {
	m.groups, m.windows, m.stateBytes, m.stateSum = totals{}, totals{}, map[string]int64{}, 0
}

// apply makes the changes of a committed transaction visible, all at once.
func (m *memory) apply(changes []func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, change := range changes {
		change(m)
	}
}

func (m *memory) added(receiver string, position uint64, aside bool) {
	b := m.backlogs[receiver]
	if !aside && (b.Lowest == 0 || position < b.Lowest) {
		b.Lowest = position
	}
	b.Entries++
	m.backlogs[receiver] = b
}

// addHeld adds occurrences that wait in groups or in their messages, and those of changes among
// them.
func (m *memory) addHeld(receiver string, n, changes int64) {
	if m.held[receiver] += n; m.held[receiver] == 0 {
		delete(m.held, receiver)
	}
	if m.heldChanges[receiver] += changes; m.heldChanges[receiver] == 0 {
		delete(m.heldChanges, receiver)
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
	// Parked are occurrences that wait for an object that cannot be read, once for each
	// alarm.
	Parked int64
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
	for _, n := range s.memory.parked {
		size.Parked += n
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
