package outbox

import (
	"context"
	"database/sql"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// Unacknowledged reports whether a group is open and began by group.Acknowledgement.Until, but an
// acknowledgement is not in force for one of its receivers.
func (s Groups) Unacknowledged(ctx context.Context, id string, a *group.Acknowledgement) (open bool, err error) {
	err = s.readers.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM open_group WHERE id = ? AND NOT resolved AND first > 0 AND since <= ? AND acknowledged <> ?)`,
		id, micros(a.Until), a.Token).Scan(&open)
	return open, s.read("look for acknowledged groups", err)
}

// TakeSilenced returns the number of occurrences that acknowledgements kept from being sent
// since the last call, once for each receiver.
func (s Groups) TakeSilenced() (n int64) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	n, s.memory.silenced = s.memory.silenced, 0
	return n
}

// ListedGroup is an open group of an alarm.
type ListedGroup struct {
	ID, Name string
	// Since is when it began, for the last of its receivers. Newest is the time of the last
	// occurrence.
	Since, Newest time.Time
	// Over is when it is over if nothing happens in it.
	Over  time.Time
	Total int64
	// Acknowledged is the group.Acknowledgement.Token in force, or 0.
	Acknowledged int64
}

const selectListed = `
	SELECT id, max(name), max(since), max(newest), max(over), max(total), max(acknowledged), count(*) OVER () FROM open_group INDEXED BY group_by_alarm
	WHERE substr(alarm, 1, 64) = substr(?1, 1, 64) AND alarm = ?1 AND first > 0 AND NOT resolved
	AND (over >= ?2 OR EXISTS (SELECT 1 FROM lasting WHERE fired AND lasting.group_id = open_group.id))
	GROUP BY id ORDER BY max(acknowledged) <> 0 DESC, max(newest) DESC, id LIMIT ?3`

// List returns the open groups of an alarm, at most limit, and the number of all. First
// are those that are acknowledged, then those that occurred last.
func (s Groups) List(ctx context.Context, alarm string, limit int) (listed []ListedGroup, count int64, err error) {
	rows, err := s.readers.QueryContext(ctx, selectListed, alarm, micros(s.clock.Now()), limit)
	return listed, count, s.read("list the groups of an alarm", each(rows, err, func(rows *sql.Rows) error {
		var g ListedGroup
		err := rows.Scan(&g.ID, &g.Name, timestamp{&g.Since}, timestamp{&g.Newest}, timestamp{&g.Over}, &g.Total, &g.Acknowledged, &count)
		listed = append(listed, g)
		return err
	}))
}

// Confirmed reports whether this outbox has the present term, and is caught up with the
// checkpoint of the last leader. Before, its groups can be old.
func (s *Store) Confirmed() bool {
	s.memory.mu.RLock()
	confirmed := s.memory.confirmed
	s.memory.mu.RUnlock()
	state := s.State()
	return confirmed && state.Delivered.PassedBy(state.Position)
}

// recount makes TakeCounted return a subject whose groups changed.
func (tx *tx) recount(subject string) {
	tx.after(func(m *memory) { m.recounted[subject] = struct{}{} })
}
