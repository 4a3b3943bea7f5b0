package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Membership makes an Entry wait for a message of its group.
type Membership struct {
	// Group identifies the group: 64 characters at most.
	Group string
	// By contains the values that the group has in common, opaque here. Name shows them to
	// users, with [MaxGroupName] bytes at most.
	By   []byte
	Name string
	// At is the time of the occurrence, in whole seconds.
	At time.Time
	// AlarmUID is the UID of the alarm. Entry.Alarm is that of the next alarm of its name too.
	AlarmUID string
	// Wait is how long the first message of the group waits for more occurrences.
	// Interval is the minimum time between two messages.
	Wait, Interval time.Duration
	// Resolves is true if the occurrence ends the problem that the group is about.
	// OnlyResolves ignores it if there is no such group.
	Resolves, OnlyResolves bool
	// Lasts is true for a state that lasts until it is resolved. The group then stays open
	// after [GroupLife].
	Lasts bool
	// Open is how long the group stays open after this occurrence: GroupLife if it is less.
	Open time.Duration
	// Quiet is how long nothing must happen until the group is resolved, 0 if it never is.
	Quiet time.Duration
	// Ends marks the end of the group if nothing happens for Quiet. This Entry follows that
	// of its occurrence, has a Count of 0, and the Key [EndKey]. It is removed when something
	// happens.
	Ends bool
	// StateOnly is true if the occurrence was sent or already waits here. It only updates
	// the state of the group. Repeats is true if the receiver must get the messages of open
	// groups again: the outbox then stores one about an occurrence that was sent.
	StateOnly, Repeats bool
	// Suppressed is true for an occurrence that a threshold or a mute keeps from being sent. It is
	// StateOnly, and counts in the total of its group.
	Suppressed bool
	// Acknowledged is set if a user acknowledged a group with this ID. Notice is true for the
	// Entry that says so, which has a Count of 0: it puts the acknowledgement into force.
	Acknowledged *Acknowledgement
	Notice       bool
}

// MaxGroupName is the maximum length of Membership.Name, in bytes.
const MaxGroupName = 100

// GroupLife is how long a group without occurrences stays open, unless it has a
// Membership.Quiet or a longer Membership.Open. A later occurrence begins a new group.
const GroupLife = alarm.GroupLife

// EndKey returns the key of the end of a group, from that of its last occurrence.
func EndKey(last string) string {
	sum := sha256.Sum256([]byte(last + "\x00end"))
	return hex.EncodeToString(sum[:16])
}

// group is the state of an open group of a receiver. It counts all occurrences, also those that are
// not sent.
type group struct {
	// since and newest are the times of the first and the last occurrence. due is when
	// the message of the last occurrence is due, and first when the first message was due: zero if
	// all occurrences were suppressed. paced is when the last message with a problem was due: the interval
	// until the next one begins there.
	since, newest, due, first, paced time.Time
	// over is when the group is over if nothing happens in it.
	over  time.Time
	total int64
	// released is the due time of the last message that was put into the outbox.
	released  time.Time
	resolved  bool
	reference string
	// accepted is when the receiver accepted the last message, 0 if that resolved the group.
	accepted time.Time
	// ending is the key of the entry that ends the group, empty if none waits.
	ending string
	// name is Membership.Name. acknowledged is the Acknowledgement.Token in force, or 0.
	name         string
	acknowledged int64
	// repeated is the size of the message that is kept to be sent again.
	repeated int64
	// budget names the space that the group uses, and bytes is how much.
	budget string
	bytes  int64
}

const selectGroup = `SELECT since, newest, due, first, total, released, resolved, reference, ending, name, acknowledged, repeated, budget, bytes, accepted, over, paced FROM open_group WHERE receiver = ?1 AND id = ?2`

func (tx *tx) group(ctx context.Context, receiver, id string) (g group, found bool, err error) {
	err = tx.row(ctx, selectGroup, receiver, id).Scan(
		timestamp{&g.since}, timestamp{&g.newest}, timestamp{&g.due}, timestamp{&g.first}, &g.total, timestamp{&g.released}, &g.resolved, &g.reference, &g.ending, &g.name, &g.acknowledged, &g.repeated, &g.budget, &g.bytes, timestamp{&g.accepted}, timestamp{&g.over}, timestamp{&g.paced})
	if errors.Is(err, sql.ErrNoRows) {
		return group{}, false, nil
	}
	return g, err == nil, err
}

// messageClosed reports whether the message of the last occurrence does not take another
// one. If the Events come in order, this depends only on their times: no message enters the
// outbox before it is due. A served occurrence was in that message, which is why released is
// no obstacle.
func (g *group) messageClosed(at time.Time, served bool) bool {
	return !at.Before(g.due) || !served && !g.released.Before(g.due)
}

// isOver reports whether an occurrence begins a new group.
func (g *group) isOver(m *Membership, served bool) bool {
	if g.resolved && g.messageClosed(m.At, served) {
		return true
	}
	if m.Quiet > 0 {
		return !m.At.Before(g.endDue(m))
	}
	return !m.Lasts && m.At.After(g.over)
}

// successor returns the group that begins after this one with an occurrence. The last message of
// this one can still need the reference. The interval is kept between two problems, and between
// two resolutions.
func (g *group) successor(m *Membership) group {
	next := group{reference: g.reference, name: g.name, repeated: g.repeated, budget: g.budget, bytes: g.bytes, accepted: g.accepted, paced: g.paced}
	if g.resolved && m.Resolves {
		next.due, next.released = g.due, g.released
	}
	return next
}

// isReported reports whether the first message of the group was due before an occurrence. Like
// messageClosed, it depends only on times if the Events come in order.
func (g *group) isReported(at time.Time, served bool) bool {
	return !at.Before(g.first) || !served && !g.released.Before(g.first)
}

// endDue returns when a group with a Membership.Quiet is resolved: after its last message, which
// does not wait until all Events are read.
func (g *group) endDue(m *Membership) time.Time {
	return latest(g.newest.Add(m.Quiet), g.due).Add(time.Second)
}

// setDue sets when the message of a new occurrence is due, at the end of a second. The occurrence
// joins the message of the last one if that is not closed. The end of a problem is due at once,
// after the first message of the group. It takes the message with it that is due later. If the
// problem occurs again before the first message, that has all of them: see [tx.holdOccurrence].
func (g *group) setDue(m *Membership, served bool) {
	switch {
	case m.Resolves && g.begun() && !g.resolved:
		g.due = latest(m.At, g.first).Add(time.Second)
		if g.paced.After(g.due) {
			g.paced = g.due
		}
		return
	case g.resolved && !m.Resolves && !g.isReported(m.At, served):
		g.due = g.first
	case !g.messageClosed(m.At, served):
	case m.Resolves: // there was no problem
		g.due = latest(m.At.Add(m.Wait+time.Second), g.due.Add(m.Interval))
	default:
		g.due = latest(m.At.Add(m.Wait+time.Second), g.paced.Add(m.Interval))
	}
	if !m.Resolves {
		g.paced = g.due
	}
}

// join adds an entry to its group. The entry waits until the message of the group is due.
// held reports whether it is new and uses the content.
func (tx *tx) join(ctx context.Context, e *Entry, content, account int64) (held bool, err error) {
	m := e.Member
	g, known, err := tx.group(ctx, e.Receiver, m.Group)
	if err != nil {
		return false, err
	}
	if !known {
		g.budget = e.Budget
	}
	switch {
	case m.Notice:
		return tx.putAcknowledgement(ctx, e, &g, content, account)
	case m.Ends:
		return tx.holdEnd(ctx, e, &g, content, account)
	case m.Suppressed:
		return false, tx.addSuppressed(ctx, e, g, known)
	default:
		return tx.joinOccurrence(ctx, e, g, known, content, account)
	}
}

// joinOccurrence is join for an entry that is an occurrence.
func (tx *tx) joinOccurrence(ctx context.Context, e *Entry, g group, known bool, content, account int64) (held bool, err error) {
	m := e.Member
	served, err := tx.isServed(ctx, e)
	if err != nil {
		return false, err
	}
	ended := known && g.isOver(m, served)
	if ended {
		g = g.successor(m)
	}
	if m.OnlyResolves && !g.begun() {
		return false, nil
	}
	silent := m.Acknowledged != nil && !m.Resolves && m.Acknowledged.names(g.startWith(m), &g)
	if !silent {
		g.add(e, served)
	}
	switch {
	case silent:
		if err := tx.addSilently(ctx, e, &g); err != nil {
			return false, err
		}
	case served:
		g.released = g.due
	case !m.StateOnly:
		if held, err = tx.holdOccurrence(ctx, e, &g, content, account); !held || err != nil {
			return false, err
		}
	}
	if err := tx.dropEnd(ctx, e.Receiver, &g); err != nil {
		return false, err
	}
	if err := tx.putGroup(ctx, e, &g, !known); err != nil {
		return false, err
	}
	return held, tx.rememberJoined(ctx, e, &g, ended, served)
}

// add updates the state of the group with an entry.
func (g *group) add(e *Entry, served bool) {
	m := e.Member
	g.setDue(m, served)
	g.resolved = m.Resolves
	g.since = g.startWith(m)
	if !g.begun() {
		g.first = g.due
	}
	g.count(e)
}

// begun reports whether a message of the group was due. Otherwise, all occurrences were suppressed.
func (g *group) begun() bool { return !g.first.IsZero() }

// addSuppressed counts an occurrence that is not sent. It neither keeps a group open that has begun,
// nor resolves one.
func (tx *tx) addSuppressed(ctx context.Context, e *Entry, g group, known bool) error {
	m := e.Member
	if known && g.isOver(m, true) {
		g = g.successor(m)
	}
	g.since = g.startWith(m)
	if g.begun() {
		g.total += e.Count
	} else {
		g.count(e)
	}
	return tx.putGroup(ctx, e, &g, !known)
}

// count counts an entry, which keeps the group open.
func (g *group) count(e *Entry) {
	m := e.Member
	g.newest, g.total = latest(g.newest, m.At), g.total+e.Count
	if m.Resolves {
		g.over = g.newest.Add(GroupLife)
	} else {
		g.over = latest(g.over, m.At.Add(max(GroupLife, m.Open)))
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (tx *tx) putGroup(ctx context.Context, e *Entry, g *group, opened bool) error {
	g.name = e.Member.Name
	bytes := GroupBytes(e.Receiver, e.Alarm, g.budget, g.name) + referenceBytes(g.reference, g.name) + g.repeated
	_, err := tx.exec(ctx, `
		REPLACE INTO open_group (receiver, id, alarm, since, newest, due, first, total, released, resolved, reference, ending, name, acknowledged, repeated, budget, bytes, interval, accepted, over, paced, alarm_uid)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Receiver, e.Member.Group, e.Alarm, micros(g.since), micros(g.newest), micros(g.due), micros(g.first), g.total,
		micros(g.released), g.resolved, g.reference, g.ending, g.name, g.acknowledged, g.repeated, g.budget, bytes, e.Member.Interval.Microseconds(), micros(g.accepted), micros(g.over), micros(g.paced), e.Member.AlarmUID)
	tx.addState(g.budget, bytes-g.bytes)
	tx.recount(e.Alarm)
	if opened {
		tx.after(func(m *memory) { m.groups.addIn(g.budget, e.Alarm, 1) })
	}
	return err
}

// isServed reports whether an entry only updates its group because it was sent. It was not
// if it waits here, or is in a message.
func (tx *tx) isServed(ctx context.Context, e *Entry) (served bool, err error) {
	if !e.Member.StateOnly {
		return false, nil
	}
	err = tx.row(ctx, `SELECT NOT EXISTS (SELECT 1 FROM held WHERE receiver = ? AND key = ?)`, e.Receiver, e.Key).Scan(&served)
	return served, err
}

// endLife is how long a group with a message that is sent again stays after it ended, so that
// the receiver gets the end.
const endLife = 10 * time.Minute

// selectOldGroups selects the groups that ended. One with a message that is not sent stays: its
// interval begins when the receiver accepts the message, and so can its thread.
const selectOldGroups = `
	SELECT receiver, id, alarm, budget, bytes FROM open_group WHERE newest < ?1 AND over < ?3 AND (repeated = 0 OR over < ?4) AND accepted + interval <= ?3
	AND NOT EXISTS (SELECT 1 FROM lasting WHERE due = 0 AND lasting.group_id = open_group.id)
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_by_group WHERE held.receiver = open_group.receiver AND held.group_id = open_group.id AND entry IS NULL)
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_of_message WHERE held.receiver = open_group.receiver AND held.group_id = open_group.id AND entry IS NOT NULL)
	ORDER BY newest LIMIT ?2`

// forgetGroups removes groups that are over at a time, one chunk at most. It returns their
// number.
func (tx *tx) forgetGroups(ctx context.Context, at time.Time) (removed int64, err error) {
	type row struct {
		receiver, id, alarm, budget string
		bytes                       int64
	}
	var ended []row
	rows, err := tx.query(ctx, selectOldGroups, micros(at.Add(-GroupLife)), chunk, micros(at), micros(at.Add(-endLife)))
	err = each(rows, err, func(rows *sql.Rows) error {
		var g row
		err := rows.Scan(&g.receiver, &g.id, &g.alarm, &g.budget, &g.bytes)
		ended = append(ended, g)
		return err
	})
	for _, g := range ended {
		if err != nil {
			return 0, err
		}
		_, err = tx.exec(ctx, `DELETE FROM open_group WHERE receiver = ? AND id = ?`, g.receiver, g.id)
		tx.recount(g.alarm)
		tx.after(func(m *memory) {
			m.groups.addIn(g.budget, g.alarm, -1)
			m.addState(g.budget, -g.bytes)
		})
	}
	tx.freed = tx.freed || len(ended) > 0
	return int64(len(ended)), err
}

// putReference stores the reference of a group's message if the group is open and its budget
// has the space. Without a reference, the next message begins a thread of its own.
func (tx *tx) putReference(ctx context.Context, receiver string, of GroupState) error {
	g, known, err := tx.group(ctx, receiver, of.Group)
	if !known || err != nil {
		return err
	}
	added := referenceBytes(of.Reference, g.name) - referenceBytes(g.reference, g.name)
	if !tx.hasStateSpace(g.budget, added, leftByReferences) {
		return nil
	}
	tx.addState(g.budget, added)
	_, err = tx.exec(ctx, `UPDATE open_group SET reference = ?, bytes = bytes + ? WHERE receiver = ? AND id = ?`, of.Reference, added, receiver, of.Group)
	return err
}
