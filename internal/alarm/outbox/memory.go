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

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
)

// Backlog describes the entries of a receiver, pending or prepared.
type Backlog struct {
	// Entries is their number; never 0 in a Snapshot.
	Entries int64
	// Lowest is the lowest position of those that are sent in the order of positions, 0 if there is
	// none. Everything below it is delivered, except what WaitingKeys returns.
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
	held map[string]int64
	// groups are the numbers of open groups and windows, and windows is the number of all windows.
	groups  totals
	windows int64
	// parked is the number of parked occurrences by namespace.
	parked map[string]int64
	// space is what is used.
	space *ledger.Ledger
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
	// groupSent is the result of Groups.Sent.
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

func (m *memory) load(ctx context.Context, db *sql.DB) error {
	var err error
	if m.state, err = scanState(db.QueryRowContext(ctx, selectState)); err != nil {
		return err
	}
	m.clear()
	return errors.Join(m.loadCounts(ctx, db), m.loadSpace(ctx, db),
		count(ctx, db, `SELECT '', receiver, position FROM entry WHERE late = 0 AND group_id = ''`, func(_, of string, n int64) { m.added(of, uint64(n), true) }),
		count(ctx, db, `SELECT '', receiver, 0 FROM entry WHERE late = 1 OR group_id <> ''`, func(_, of string, _ int64) { m.added(of, 0, false) }),
		count(ctx, db, `SELECT '', namespace, 1 FROM parked`, func(_, of string, n int64) { m.addParked(of, n) }),
		count(ctx, db, `SELECT '', receiver, 1 FROM held`, func(_, of string, n int64) { m.addHeld(of, n) }),
		count(ctx, db, `SELECT tenant, alarm, 1 FROM open_group`, m.groups.addIn),
		count(ctx, db, `SELECT '', '', 1 FROM open_group WHERE receiver = ''`, func(_, _ string, n int64) { m.windows += n }),
		count(ctx, db, `SELECT '', receiver, bytes FROM attempt`, func(_, of string, n int64) { m.prepared.add(of, n) }))
}

// loadSpace counts what is used. No query groups rows: SQLite would need space on the disk for that.
func (m *memory) loadSpace(ctx context.Context, db *sql.DB) error {
	add := func(c ledger.Class) func(tenant, _ string, n int64) {
		return func(tenant, _ string, n int64) { m.space.Add(c, tenant, n) }
	}
	return errors.Join(
		count(ctx, db, `SELECT tenant, receiver, bytes FROM entry`, m.space.AddMessage),
		count(ctx, db, `SELECT tenant, receiver, bytes FROM held`, m.space.AddMessage),
		count(ctx, db, `SELECT tenant, '', bytes FROM parked`, add(ledger.Parked)),
		count(ctx, db, `SELECT tenant, '', bytes FROM open_group`, add(ledger.Groups)),
		count(ctx, db, `SELECT namespace, '', bytes FROM baseline`, add(ledger.Objects)),
		count(ctx, db, `SELECT namespace, '', bytes FROM lasting`, add(ledger.Objects)),
		count(ctx, db, `SELECT namespace, '', 1 FROM lasting`, add(ledger.States)))
}

// clear empties everything but the state and what this process counts.
func (m *memory) clear() {
	m.backlogs, m.held, m.parked = map[string]Backlog{}, map[string]int64{}, map[string]int64{}
	m.groups, m.windows, m.prepared = totals{}, 0, totals{}
	m.counted = map[string]countedSubject{}
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

// Count returns the number of open groups and windows of an alarm, from memory. Given
// the part of an alarm's name up to the last slash, it returns the number for all alarms
// of the namespace.
func (s Groups) Count(alarm string) int64 {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.groups[alarm]
}

// CountIn is Count for those of an alarm that use the space of a tenant.
func (s Groups) CountIn(tenant, alarm string) int64 { return s.Count(ofTenant(tenant, alarm)) }

// CountBeyond returns how many groups and windows of an alarm there are beyond a number in each
// tenant. It reads all counts.
func (s Groups) CountBeyond(alarm string, number int64) (sum int64) {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	for of, n := range s.memory.groups {
		if strings.HasSuffix(of, ofTenant("", alarm)) {
			sum += max(0, n-number)
		}
	}
	return sum
}

// apply makes the changes of a committed transaction visible, all at once.
func (m *memory) apply(tx *tx) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, change := range tx.changes {
		change(m)
	}
	m.space.Apply(tx.space)
}

func (m *memory) added(receiver string, position uint64, inOrder bool) {
	b := m.backlogs[receiver]
	if inOrder && (b.Lowest == 0 || position < b.Lowest) {
		b.Lowest = position
	}
	b.Entries++
	m.backlogs[receiver] = b
}

// addHeld adds occurrences that wait in groups or in their messages.
func (m *memory) addHeld(receiver string, n int64) {
	if m.held[receiver] += n; m.held[receiver] == 0 {
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

// sentGroup announces that a message of a group was removed.
func (m *memory) sentGroup() {
	select {
	case m.groupSent <- struct{}{}:
	default:
	}
}

// addParked counts parked occurrences of a namespace.
func (m *memory) addParked(namespace string, n int64) {
	if m.parked[namespace] += n; m.parked[namespace] == 0 {
		delete(m.parked, namespace)
	}
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
	size := Size{Groups: s.memory.groups.all() - s.memory.windows, Windows: s.memory.windows}
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
