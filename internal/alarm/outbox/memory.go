package outbox

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

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
	// heldChanges counts changes among them. groups and windows are the numbers of open ones.
	held            map[string]int64
	heldChanges     map[string]int64
	groups, windows totals
	// stateBytes is the size of groups and windows, by tenant, and stateSum that of all.
	stateBytes map[string]int64
	stateSum   int64
	// parked is the number of parked occurrences by namespace, parkedBytes their bytes by
	// tenant, and parkedSum the bytes of all.
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
		count(ctx, db, `SELECT tenant, sum(bytes) FROM parked GROUP BY tenant`, func(of string, n int64) { m.addParked("", of, 0, n) }),
		count(ctx, db, `SELECT receiver, count(*) FROM held GROUP BY receiver`, func(receiver string, n int64) { m.addHeld(receiver, n, 0) }),
		count(ctx, db, `SELECT receiver, count(*) FROM held WHERE stream <> '' GROUP BY receiver`, func(receiver string, n int64) { m.addHeld(receiver, 0, n) }),
		countIn(ctx, db, `SELECT tenant, alarm, count(*) FROM open_group GROUP BY tenant, alarm`, m.groups.addIn),
		count(ctx, db, `SELECT namespace, sum(bytes) FROM baseline GROUP BY namespace`, m.addBaseline),
		count(ctx, db, `SELECT namespace, sum(bytes) FROM lasting GROUP BY namespace`, m.addBaseline),
		count(ctx, db, `SELECT namespace, count(*) FROM lasting GROUP BY namespace`, m.addLasting),
		count(ctx, db, `SELECT receiver, `+sizeOfAttempt+` FROM attempt`, m.prepared.add),
		count(ctx, db, `SELECT tenant, sum(bytes) FROM open_group GROUP BY tenant`, m.addState),
		count(ctx, db, `SELECT tenant, sum(bytes) FROM window GROUP BY tenant`, m.addState),
		countIn(ctx, db, `SELECT tenant, alarm, count(*) FROM window GROUP BY tenant, alarm`, m.windows.addIn))
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

// Receivers returns the receivers for which something waits, also if it waits in groups only.
func (s *Store) Receivers() []string {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	receivers := slices.Collect(maps.Keys(s.memory.backlogs))
	for receiver := range s.memory.held {
		if _, ok := s.memory.backlogs[receiver]; !ok {
			receivers = append(receivers, receiver)
		}
	}
	slices.Sort(receivers)
	return receivers
}

// Groups returns the number of open groups and windows of an alarm, from memory. Given
// the part of an alarm's name up to the last slash, it returns the number for all alarms
// of the namespace.
func (s *Store) Groups(alarm string) int64 {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.groups[alarm] + s.memory.windows[alarm]
}

// GroupsIn is Groups for those of an alarm that use the space of a tenant.
func (s *Store) GroupsIn(tenant, alarm string) int64 { return s.Groups(ofTenant(tenant, alarm)) }

// GroupsBeyond returns how many groups and windows of an alarm there are beyond a number in each
// tenant. It reads all counts.
func (s *Store) GroupsBeyond(alarm string, number int64) (sum int64) {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	counts := map[string]int64{}
	for _, all := range []totals{s.memory.groups, s.memory.windows} {
		for of, n := range all {
			if strings.HasSuffix(of, ofTenant("", alarm)) {
				counts[of] += n
			}
		}
	}
	for _, n := range counts {
		sum += max(0, n-number)
	}
	return sum
}

// addState adds bytes of groups and windows to a tenant.
func (m *memory) addState(tenant string, bytes int64) {
	m.stateSum += bytes
	if m.stateBytes[tenant] += bytes; m.stateBytes[tenant] == 0 {
		delete(m.stateBytes, tenant)
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

// sentGroup announces that a message of a group was removed.
func (m *memory) sentGroup() {
	select {
	case m.groupSent <- struct{}{}:
	default:
	}
}

func (m *memory) addBaseline(namespace string, bytes int64) {
	m.baselineSum += bytes
	if m.baselineBytes[namespace] += bytes; m.baselineBytes[namespace] == 0 {
		delete(m.baselineBytes, namespace)
	}
}

// clearBaselines removes the bytes of all baselines and states.
func (m *memory) clearBaselines() {
	m.baselineBytes, m.baselineSum = map[string]int64{}, 0
	m.lasting, m.lastingSum = map[string]int64{}, 0
}

// baselineUsage are the bytes of baselines, of a namespace and of all.
func (m *memory) baselineUsage(namespace string) (used, all int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.baselineBytes[namespace], m.baselineSum
}

// allBaselines returns the bytes of all baselines.
func (m *memory) allBaselines() int64 {
	_, all := m.baselineUsage("")
	return all
}

func (m *memory) addLasting(namespace string, rows int64) {
	m.lastingSum += rows
	if m.lasting[namespace] += rows; m.lasting[namespace] == 0 {
		delete(m.lasting, namespace)
	}
}

// addParked counts parked occurrences, of a namespace and of a tenant.
func (m *memory) addParked(namespace, tenant string, n, bytes int64) {
	if m.parked[namespace] += n; m.parked[namespace] == 0 {
		delete(m.parked, namespace)
	}
	if m.parkedBytes[tenant] += bytes; m.parkedBytes[tenant] == 0 {
		delete(m.parkedBytes, tenant)
	}
	m.parkedSum += bytes
}

func (m *memory) clearParked() {
	m.parked, m.parkedBytes, m.parkedSum = map[string]int64{}, map[string]int64{}, 0
}

// parkedIn returns the bytes of parked occurrences, of a tenant and of all.
func (m *memory) parkedIn(tenant string) (used, all int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.parkedBytes[tenant], m.parkedSum
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
