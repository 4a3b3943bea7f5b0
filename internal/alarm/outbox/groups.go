package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
)

// Membership makes an Entry wait for a message of its group.
type Membership struct {
	// Group identifies the group: 64 characters at most.
	Group string
	// By contains the values that the group has in common, opaque here. Name shows them to
	// users, with [MaxGroupName] bytes at most.
	By   []byte
	Name string
	// AlarmUID is the UID of the alarm. Entry.Alarm also names the next alarm of its name.
	AlarmUID string
	// Rule is what the alarm says about the group.
	Rule group.Rule
	// Event is what the entry is in the group. Commit sets its Count and Key. It is Sent if it was
	// sent or already waits here: it then only updates the state of the group. An End follows
	// the entry of its occurrence, has a Count of 0, and the Key [EndKey]. A Notice has a Count of 0.
	Event group.Event
	// Repeats is true if the receiver must get the messages of open groups again: the outbox then
	// stores one about an occurrence that was sent.
	Repeats bool
}

// MaxGroupName is the maximum length of Membership.Name, in bytes.
const MaxGroupName = 100

// GroupLife is how long a group without occurrences stays open, unless it has a
// Rule.Quiet or a longer Rule.Open. A later occurrence begins a new group.
const GroupLife = alarm.GroupLife

// EndKey returns the key of the end of a group, from that of its last occurrence.
func EndKey(last string) string {
	sum := sha256.Sum256([]byte(last + "\x00end"))
	return hex.EncodeToString(sum[:16])
}

// groupKey identifies a group of a receiver.
type groupKey struct{ receiver, group string }

// openGroup is a row of open_group.
type openGroup struct {
	group.State
	reference string
	// name is Membership.Name.
	name string
	// last is the content of the message that is kept to be sent again, and repeated the bytes that it counts for.
	last     sql.Null[int64]
	repeated int64
	// tenant names the space that the group uses, and bytes is how much.
	tenant string
	bytes  int64
}

const selectGroup = `
	SELECT since, newest, due, first, paced, over, total, released, resolved, accepted, interval, ending, acknowledged, reference, name, last, repeated, tenant, bytes
	FROM open_group WHERE receiver = ?1 AND id = ?2`

func (tx *tx) group(ctx context.Context, receiver, id string) (g openGroup, found bool, err error) {
	err = tx.row(ctx, selectGroup, receiver, id).Scan(
		timestamp{&g.Since}, timestamp{&g.Newest}, timestamp{&g.Due}, timestamp{&g.First}, timestamp{&g.Paced}, timestamp{&g.Over}, &g.Total,
		timestamp{&g.Released}, &g.Resolved, timestamp{&g.Accepted}, duration{&g.Interval}, &g.Ending, &g.Acknowledged,
		&g.reference, &g.name, &g.last, &g.repeated, &g.tenant, &g.bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return openGroup{}, false, nil
	}
	return g, err == nil, err
}

// stateValues are the columns of a State in the order of selectGroup.
func stateValues(s *group.State) []any {
	return []any{
		micros(s.Since), micros(s.Newest), micros(s.Due), micros(s.First), micros(s.Paced), micros(s.Over), s.Total,
		micros(s.Released), s.Resolved, micros(s.Accepted), s.Interval.Microseconds(), s.Ending, s.Acknowledged,
	}
}

// join adds an entry to its group. The entry waits until the message of the group is due.
// held reports whether it is new and uses the content.
func (tx *tx) join(ctx context.Context, e *Entry, content int64) (held bool, err error) {
	g, known, err := tx.group(ctx, e.Receiver, e.Member.Group)
	if err != nil {
		return false, err
	}
	event, err := tx.eventOf(ctx, e)
	if err != nil {
		return false, err
	}
	next, do := group.Next(g.State, e.Member.Rule, event)
	if do.Hold != nil {
		if held, err = tx.hold(ctx, e, &next, do.Hold, content); !held || err != nil {
			return false, err
		}
	}
	if err := tx.change(ctx, e, &next, &do); err != nil {
		return false, err
	}
	switch {
	case next == g.State:
	case known:
		err = tx.updateGroup(ctx, e.Receiver, e.Member.Group, &next)
		tx.recount(e.Alarm)
	default:
		err = tx.insertGroup(ctx, e, &next)
	}
	if err != nil {
		return false, err
	}
	return held, tx.keep(ctx, e, &next, &do)
}

// eventOf returns what an entry is in its group.
func (tx *tx) eventOf(ctx context.Context, e *Entry) (group.Event, error) {
	event := e.Member.Event
	event.Count, event.Key = e.Count, e.Key
	if event.Message != group.Sent {
		return event, nil
	}
	var waits bool
	err := tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM held WHERE receiver = ? AND key = ? AND (entry IS NULL OR NOT ends))`, e.Receiver, e.Key).Scan(&waits)
	if waits {
		event.Message = group.Waits
	}
	return event, err
}

const updateState = `
	UPDATE open_group SET since = ?3, newest = ?4, due = ?5, first = ?6, paced = ?7, over = ?8, total = ?9,
		released = ?10, resolved = ?11, accepted = ?12, interval = ?13, ending = ?14, acknowledged = ?15
	WHERE receiver = ?1 AND id = ?2`

func (tx *tx) updateGroup(ctx context.Context, receiver, id string, s *group.State) error {
	_, err := tx.exec(ctx, updateState, append([]any{receiver, id}, stateValues(s)...)...)
	return err
}

func (tx *tx) insertGroup(ctx context.Context, e *Entry, s *group.State) error {
	m := e.Member
	bytes := GroupBytes(e.Receiver, e.Alarm, e.Tenant, m.Name)
	_, err := tx.exec(ctx, `
		INSERT INTO open_group (receiver, id, alarm, alarm_uid, name, reference, tenant, bytes, since, newest, due, first, paced, over, total, released, resolved, accepted, interval, ending, acknowledged)
		VALUES (?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append([]any{e.Receiver, m.Group, e.Alarm, m.AlarmUID, m.Name, e.Tenant, bytes}, stateValues(s)...)...)
	tx.recount(e.Alarm)
	tx.space.Add(ledger.Groups, e.Tenant, bytes)
	tx.countGroup(e.Receiver, e.Tenant, e.Alarm, 1)
	return err
}

// countGroup counts groups of a receiver, or windows if there is none.
func (tx *tx) countGroup(receiver, tenant, alarm string, n int64) {
	tx.after(func(m *memory) {
		m.groups.addIn(tenant, alarm, n)
		if receiver == "" {
			m.windows += n
		}
	})
}

// changeGroup changes the state of a group, if there is one.
func (tx *tx) changeGroup(ctx context.Context, receiver, id string, change func(*group.State)) error {
	g, known, err := tx.group(ctx, receiver, id)
	before := g.State
	if change(&g.State); !known || err != nil || g.State == before {
		return err
	}
	return tx.updateGroup(ctx, receiver, id, &g.State)
}

// endLife is how long a group with a message that is sent again stays after it ended, so that
// the receiver gets the end.
const endLife = 10 * time.Minute

// selectOldGroups selects the groups and windows that ended. One with a message that is not sent stays: its
// interval begins when the receiver accepts the message, and so can its thread.
const selectOldGroups = `
	SELECT receiver, id, alarm, tenant, bytes FROM open_group WHERE newest < ?1 AND over < ?3 AND (last IS NULL OR over < ?4) AND accepted + interval <= ?3
	AND NOT EXISTS (SELECT 1 FROM lasting WHERE fired AND lasting.group_id = open_group.id)
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_by_group WHERE held.receiver = open_group.receiver AND held.group_id = open_group.id AND entry IS NULL)
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_of_message WHERE held.receiver = open_group.receiver AND held.group_id = open_group.id AND entry IS NOT NULL)
	ORDER BY newest LIMIT ?2`

// forgetGroups removes groups and windows that are over at a time, one chunk at most. It returns
// their number.
func (tx *tx) forgetGroups(ctx context.Context, at time.Time) (removed int64, err error) {
	type row struct {
		receiver, id, alarm, tenant string
		bytes                       int64
	}
	var ended []row
	rows, err := tx.query(ctx, selectOldGroups, micros(at.Add(-GroupLife)), chunk, micros(at), micros(at.Add(-endLife)))
	err = each(rows, err, func(rows *sql.Rows) error {
		var g row
		err := rows.Scan(&g.receiver, &g.id, &g.alarm, &g.tenant, &g.bytes)
		ended = append(ended, g)
		return err
	})
	for _, g := range ended {
		if err != nil {
			return 0, err
		}
		_, err = tx.exec(ctx, `DELETE FROM open_group WHERE receiver = ? AND id = ?`, g.receiver, g.id)
		tx.recount(g.alarm)
		tx.space.Add(ledger.Groups, g.tenant, -g.bytes)
		tx.countGroup(g.receiver, g.tenant, g.alarm, -1)
	}
	tx.Freed = tx.Freed || len(ended) > 0
	return int64(len(ended)), err
}

// Alarms returns the UIDs of the alarms that have groups.
func (s Groups) Alarms(ctx context.Context) (uids []string, err error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT DISTINCT alarm_uid FROM open_group WHERE alarm_uid > '' AND first > 0 AND NOT resolved`)
	return uids, s.read("list the alarms of groups", each(rows, err, func(rows *sql.Rows) error {
		var uid string
		err := rows.Scan(&uid)
		uids = append(uids, uid)
		return err
	}))
}

// UnresolvedGroup is a group of a receiver that was reported and is not resolved.
type UnresolvedGroup struct {
	Receiver, ID, Alarm, Tenant, Name string
	Since                             time.Time
	// Last is its last message, if that is kept to be sent again.
	Last []byte
}

// Unresolved returns groups of an alarm, at most limit.
func (s Groups) Unresolved(ctx context.Context, alarmUID string, limit int) (groups []UnresolvedGroup, err error) {
	rows, err := s.readers.QueryContext(ctx, `
		SELECT receiver, id, alarm, tenant, name, since, (SELECT data FROM content WHERE content.id = last)
		FROM open_group WHERE alarm_uid = ? AND first > 0 AND NOT resolved LIMIT ?`, alarmUID, limit)
	return groups, s.read("list the groups of an alarm", each(rows, err, func(rows *sql.Rows) error {
		var g UnresolvedGroup
		err := rows.Scan(&g.Receiver, &g.ID, &g.Alarm, &g.Tenant, &g.Name, timestamp{&g.Since}, &g.Last)
		groups = append(groups, g)
		return err
	}))
}
