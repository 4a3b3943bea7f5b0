package outbox

import (
	"context"
	"database/sql"
	"time"
)

// Acknowledgement says that a user acknowledged a group. It is in force until the group is
// resolved. A group that begins again has the same ID, but began after Until.
type Acknowledgement struct {
	// Token identifies the acknowledgement. It is not 0.
	Token int64
	// Until is the latest time at which the group can have begun.
	Until time.Time
	// Announced is true if it was in force before: no notice is sent. An outbox that was lost
	// knows it only from here.
	Announced bool
}

// names reports whether the acknowledgement is that of a group which began at a time.
func (a *Acknowledgement) names(began time.Time, g *group) bool {
	return g.acknowledged == a.Token || !began.After(a.Until)
}

// startWith returns when the group began, if the occurrence of the Membership belongs to it.
func (g *group) startWith(m *Membership) time.Time {
	if g.total == 0 {
		return m.At
	}
	return g.since
}

// addSilently adds an occurrence to an acknowledged group without a message. It leaves the due
// time of messages as it is, so that the resolution does not wait for a message that is not sent.
// A resolution that waits is removed, because the problem did not end.
func (tx *tx) addSilently(ctx context.Context, e *Entry, g *group) error {
	m := e.Member
	g.since = g.startWith(m)
	if !g.begun() {
		g.first = m.At
	}
	if g.resolved {
		g.resolved = false
		if err := tx.dropHeldOf(ctx, e, g, "resolved"); err != nil {
			return err
		}
	}
	g.count(e)
	if m.Acknowledged.Announced {
		g.acknowledged = m.Acknowledged.Token
	}
	if !m.StateOnly {
		tx.after(func(m *memory) { m.silenced += e.Count })
	}
	return nil
}

// dropHeldOf removes occurrences of a group that wait for a message and that a condition selects.
// The occurrences of a former group with the same ID stay, and so does the end of the group.
func (tx *tx) dropHeldOf(ctx context.Context, e *Entry, g *group, condition string) error {
	counts, err := tx.deleteHeld(ctx, e.Receiver, `receiver = ? AND group_id = ? AND since = ? AND entry IS NULL AND NOT ends AND `+condition,
		e.Receiver, e.Member.Group, micros(g.since))
	var silenced int64
	for _, n := range counts {
		silenced += n
	}
	tx.after(func(m *memory) { m.silenced += silenced })
	return err
}

// putAcknowledgement puts an acknowledgement into force, once, and holds its notice. Occurrences that
// wait for a message are not sent any more. It does nothing if the group is another one, or is
// resolved.
func (tx *tx) putAcknowledgement(ctx context.Context, e *Entry, g *group, content, account int64) (held bool, err error) {
	a := e.Member.Acknowledged
	if !g.begun() || g.resolved || g.acknowledged == a.Token || !a.names(g.since, g) {
		return false, nil
	}
	g.acknowledged = a.Token
	if err := tx.dropHeldOf(ctx, e, g, "TRUE"); err != nil {
		return false, err
	}
	if !e.Member.StateOnly {
		notice := *g
		notice.due = e.CreatedAt
		notice.first = time.Time{}
		if held, err = tx.hold(ctx, e, &notice, content, account); err != nil {
			return false, err
		}
	}
	_, err = tx.exec(ctx, `UPDATE open_group SET acknowledged = ? WHERE receiver = ? AND id = ?`, a.Token, e.Receiver, e.Member.Group)
	tx.recount(e.Alarm)
	return held, err
}

// Unacknowledged reports whether a group is open and began by Acknowledgement.Until, but an
// acknowledgement is not in force for one of its receivers.
func (s *Store) Unacknowledged(ctx context.Context, id string, a *Acknowledgement) (open bool, err error) {
	err = s.readers.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM open_group WHERE id = ? AND NOT resolved AND first > 0 AND since <= ? AND acknowledged <> ?)`,
		id, micros(a.Until), a.Token).Scan(&open)
	return open, s.read("look for acknowledged groups", err)
}

// TakeSilenced returns the number of occurrences that acknowledgements kept from being sent
// since the last call, once for each receiver.
func (s *Store) TakeSilenced() (n int64) {
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
	// Acknowledged is the Acknowledgement.Token in force, or 0.
	Acknowledged int64
}

const selectListed = `
	SELECT id, max(name), max(since), max(newest), max(over), max(total), max(acknowledged), count(*) OVER () FROM open_group INDEXED BY group_by_alarm
	WHERE substr(alarm, 1, 64) = substr(?1, 1, 64) AND alarm = ?1 AND first > 0 AND NOT resolved
	AND (over >= ?2 OR EXISTS (SELECT 1 FROM lasting WHERE due = 0 AND lasting.group_id = open_group.id))
	GROUP BY id ORDER BY max(acknowledged) <> 0 DESC, max(newest) DESC, id LIMIT ?3`

// ListGroups returns the open groups of an alarm, at most limit, and the number of all. First
// are those that are acknowledged, then those that occurred last.
func (s *Store) ListGroups(ctx context.Context, alarm string, limit int) (listed []ListedGroup, count int64, err error) {
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
	return confirmed && state.Delivered.passedBy(state.Position)
}

// recount makes TakeCounted return a subject whose groups changed.
func (tx *tx) recount(subject string) {
	tx.after(func(m *memory) { m.recounted[subject] = struct{}{} })
}
