package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Membership makes an Entry a part of a message of its group.
type Membership struct {
	// Group names it: at most 64 characters.
	Group string
	// By is what is kept of what the group has in common, opaque here.
	By []byte
	// At is when it happened, in whole seconds.
	At time.Time
	// Wait is how long the group's first message waits for more, Interval the least
	// time between two messages.
	Wait, Interval time.Duration
	// Resolves says that what the group is about is over.
	Resolves bool
	// Served: it was told of before, or waits to be, and is in the ledger for what is
	// known of the group alone.
	StateOnly bool
}

// GroupLife is for how long nothing happens in a group until it is over: what comes
// then begins a new one.
const GroupLife = time.Hour

// group is what is remembered of an open group of a receiver.
type group struct {
	// since and newest are when the first and the last of it happened; due is when
	// the message is to be sent that the last is part of, and first when the first was.
	since, newest, due, first time.Time
	total                     int64
	// released is when the last message was to be sent that was put into the outbox.
	released  time.Time
	resolved  bool
	reference string
}

const selectGroup = `SELECT since, newest, due, first, total, released, resolved, reference FROM grp WHERE receiver = ?1 AND id = ?2`

func (tx *tx) group(ctx context.Context, receiver, id string) (g group, found bool, err error) {
	err = tx.row(ctx, selectGroup, receiver, id).Scan(
		timestamp{&g.since}, timestamp{&g.newest}, timestamp{&g.due}, timestamp{&g.first}, &g.total, timestamp{&g.released}, &g.resolved, &g.reference)
	if errors.Is(err, sql.ErrNoRows) {
		return group{}, false, nil
	}
	return g, err == nil, err
}

// told says whether the message that the last of it is part of is gone, or was to be
// sent by a time. In a feed that is in order it depends on nothing but what happened
// when, for no message is put into the outbox sooner than it is due.
func (g *group) messageClosed(at time.Time) bool {
	return !at.Before(g.due) || !g.released.Before(g.due)
}

// over says whether what happens at a time begins a new group.
func (g *group) over(at time.Time) bool {
	return at.Sub(g.newest) > GroupLife || g.resolved && g.messageClosed(at)
}

// slot is when the message is due that something is part of which happened at a
// time, at the end of that second: with those before it, if that is not told.
func (g *group) nextDue(m *Membership) time.Time {
	if !g.messageClosed(m.At) {
		return g.due
	}
	first := m.At.Add(m.Wait + time.Second)
	if next := g.due.Add(m.Interval); !g.due.IsZero() && next.After(first) {
		return next
	}
	return first
}

// join adds an entry to its group, and holds it until the group's message is due.
func (tx *tx) join(ctx context.Context, e *Entry) error {
	m := e.Member
	g, known, err := tx.group(ctx, e.Receiver, m.Group)
	if err != nil {
		return err
	}
	if known && g.over(m.At) { // its last message may not be sent yet, and needs the reference
		g = group{reference: g.reference}
	}
	g.add(e)
	if m.StateOnly {
		waits, err := tx.isHeld(ctx, e)
		if err != nil {
			return err
		}
		if !waits {
			g.released = g.due
		}
	} else if held, err := tx.hold(ctx, e, &g); !held || err != nil {
		return err
	}
	return tx.putGroup(ctx, e, &g, !known)
}

// add makes an entry a part of the group.
func (g *group) add(e *Entry) {
	m := e.Member
	g.due, g.resolved = g.nextDue(m), m.Resolves && g.total > 0
	if g.total == 0 {
		g.since, g.first = m.At, g.due
	}
	g.newest, g.total = latest(g.newest, m.At), g.total+e.Count
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (tx *tx) putGroup(ctx context.Context, e *Entry, g *group, opened bool) error {
	_, err := tx.exec(ctx, `
		REPLACE INTO grp (receiver, id, alarm, by, since, newest, due, first, total, released, resolved, reference)
		VALUES (?, ?, ?, ifnull(?, x''), ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Receiver, e.Member.Group, e.Alarm, e.Member.By, micros(g.since), micros(g.newest), micros(g.due), micros(g.first), g.total,
		micros(g.released), g.resolved, g.reference)
	if opened {
		tx.after(func(m *memory) { m.groups.add(e.Alarm, 1) })
	}
	return err
}

// hold keeps an entry back until the group's message is due; one that is there already,
// in a message or not yet, is not held again.
func (tx *tx) hold(ctx context.Context, e *Entry, g *group) (bool, error) {
	n, err := tx.exec(ctx, `
		INSERT INTO held (receiver, key, grp, alarm, position, count, created_at, due, payload, entry, since, total, first, resolved)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ifnull(?, x''), NULL, ?, ?, ?, ?) ON CONFLICT (receiver, key) DO NOTHING`,
		e.Receiver, e.Key, e.Member.Group, e.Alarm, e.Position, e.Count, micros(e.CreatedAt), micros(g.due), e.Payload,
		micros(g.since), g.total, g.due.Equal(g.first), g.resolved)
	if n > 0 {
		tx.after(func(m *memory) { m.held[e.Receiver]++ })
	}
	return n > 0, err
}

// holds says whether an entry waits in its group, or in its message.
func (tx *tx) isHeld(ctx context.Context, e *Entry) (holds bool, err error) {
	err = tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM held WHERE receiver = ? AND key = ?)`, e.Receiver, e.Key).Scan(&holds)
	return holds, err
}

const selectOldGroups = `
	SELECT receiver, id, alarm FROM grp WHERE newest < ?1
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_by_group WHERE held.receiver = grp.receiver AND held.grp = grp.id AND entry IS NULL)
	ORDER BY newest LIMIT ?2`

// endGroups forgets groups that are over at a time, at most a chunk.
func (tx *tx) forgetGroups(ctx context.Context, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	var ended [][3]string
	rows, err := tx.query(ctx, selectOldGroups, micros(at.Add(-GroupLife)), chunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var g [3]string
		err := rows.Scan(&g[0], &g[1], &g[2])
		ended = append(ended, g)
		return err
	})
	for _, g := range ended {
		if err != nil {
			return err
		}
		_, err = tx.exec(ctx, `DELETE FROM grp WHERE receiver = ? AND id = ?`, g[0], g[1])
		tx.after(func(m *memory) { m.groups.add(g[2], -1) })
	}
	return err
}
