package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Membership makes an Entry wait for a message of its group.
type Membership struct {
	// Group identifies the group: 64 characters at most.
	Group string
	// By contains the values that the group has in common, opaque here.
	By []byte
	// At is the time of the occurrence, in whole seconds.
	At time.Time
	// Wait is how long the first message of the group waits for more occurrences.
	// Interval is the minimum time between two messages.
	Wait, Interval time.Duration
	// Resolves is true if the occurrence ends the problem that the group is about.
	Resolves bool
	// StateOnly is true if the occurrence was sent or already waits here. It only updates
	// the state of the group.
	StateOnly bool
}

// GroupLife is how long a group without occurrences stays open. A later occurrence begins
// a new group.
const GroupLife = time.Hour

// group is the state of an open group of a receiver.
type group struct {
	// since and newest are the times of the first and the last occurrence. due is when
	// the message of the last occurrence is due, and first when the message of the first
	// occurrence was due.
	since, newest, due, first time.Time
	total                     int64
	// released is the due time of the last message that was put into the outbox.
	released  time.Time
	resolved  bool
	reference string
}

const selectGroup = `SELECT since, newest, due, first, total, released, resolved, reference FROM open_group WHERE receiver = ?1 AND id = ?2`

func (tx *tx) group(ctx context.Context, receiver, id string) (g group, found bool, err error) {
	err = tx.row(ctx, selectGroup, receiver, id).Scan(
		timestamp{&g.since}, timestamp{&g.newest}, timestamp{&g.due}, timestamp{&g.first}, &g.total, timestamp{&g.released}, &g.resolved, &g.reference)
	if errors.Is(err, sql.ErrNoRows) {
		return group{}, false, nil
	}
	return g, err == nil, err
}

// messageClosed reports whether the message of the last occurrence takes no more
// occurrences at a time. If the Events come in order, this depends only on their times:
// no message enters the outbox before it is due.
func (g *group) messageClosed(at time.Time) bool {
	return !at.Before(g.due) || !g.released.Before(g.due)
}

// over reports whether an occurrence at a time begins a new group.
func (g *group) over(at time.Time) bool {
	return at.Sub(g.newest) > GroupLife || g.resolved && g.messageClosed(at)
}

// nextDue returns when the message of a new occurrence is due, at the end of a second.
// The occurrence joins the message of the last one if that is not closed.
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

// join adds an entry to its group. The entry waits until the message of the group is due.
func (tx *tx) join(ctx context.Context, e *Entry) error {
	m := e.Member
	g, known, err := tx.group(ctx, e.Receiver, m.Group)
	if err != nil {
		return err
	}
	if known && g.over(m.At) { // its last message can still need the reference
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

// add updates the state of the group with an entry.
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
		REPLACE INTO open_group (receiver, id, alarm, by, since, newest, due, first, total, released, resolved, reference)
		VALUES (?, ?, ?, ifnull(?, x''), ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Receiver, e.Member.Group, e.Alarm, e.Member.By, micros(g.since), micros(g.newest), micros(g.due), micros(g.first), g.total,
		micros(g.released), g.resolved, g.reference)
	if opened {
		tx.after(func(m *memory) { m.groups.add(e.Alarm, 1) })
	}
	return err
}

// hold stores an entry until the message of its group is due. An entry that already
// waits, or is in a message, is not stored again.
func (tx *tx) hold(ctx context.Context, e *Entry, g *group) (bool, error) {
	n, err := tx.exec(ctx, `
		INSERT INTO held (receiver, key, group_id, alarm, position, count, created_at, due, payload, entry, since, total, first, resolved)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ifnull(?, x''), NULL, ?, ?, ?, ?) ON CONFLICT (receiver, key) DO NOTHING`,
		e.Receiver, e.Key, e.Member.Group, e.Alarm, e.Position, e.Count, micros(e.CreatedAt), micros(g.due), e.Payload,
		micros(g.since), g.total, g.due.Equal(g.first), g.resolved)
	if n > 0 {
		tx.after(func(m *memory) { m.held[e.Receiver]++ })
	}
	return n > 0, err
}

// isHeld reports whether an entry waits in its group or is in a message.
func (tx *tx) isHeld(ctx context.Context, e *Entry) (holds bool, err error) {
	err = tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM held WHERE receiver = ? AND key = ?)`, e.Receiver, e.Key).Scan(&holds)
	return holds, err
}

const selectOldGroups = `
	SELECT receiver, id, alarm FROM open_group WHERE newest < ?1
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_by_group WHERE held.receiver = open_group.receiver AND held.group_id = open_group.id AND entry IS NULL)
	ORDER BY newest LIMIT ?2`

// forgetGroups removes groups that are over at a time, one chunk at most.
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
		_, err = tx.exec(ctx, `DELETE FROM open_group WHERE receiver = ? AND id = ?`, g[0], g[1])
		tx.after(func(m *memory) { m.groups.add(g[2], -1) })
	}
	return err
}

// Held contains the occurrences that wait in the groups of a receiver: the position of
// each Entry.Key.
type Held = map[string]uint64

// HeldKeys returns the occurrences in groups, and in messages of groups that are not
// acknowledged, by receiver. It reads at most one more than limit, and returns their
// number.
func (s *Store) HeldKeys(ctx context.Context, limit int) (held map[string]Held, n int, err error) {
	held = map[string]Held{}
	rows, err := s.readers.QueryContext(ctx, `SELECT receiver, key, position FROM held LIMIT ?`, limit+1)
	err = each(rows, err, func(rows *sql.Rows) error {
		var receiver, key string
		var position uint64
		if err := rows.Scan(&receiver, &key, &position); err != nil {
			return err
		}
		if held[receiver] == nil {
			held[receiver] = Held{}
		}
		held[receiver][key] = position
		n++
		return nil
	})
	return held, n, s.read("read the occurrences in groups", err)
}

// LowestHeld returns the lowest position of the occurrences in groups and their messages,
// for each receiver that has any.
func (s *Store) LowestHeld(ctx context.Context) (map[string]uint64, error) {
	lowest := map[string]uint64{}
	rows, err := s.readers.QueryContext(ctx, `SELECT receiver, min(position) FROM held GROUP BY receiver`)
	return lowest, s.read("read the occurrences in groups", each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		var position uint64
		err := rows.Scan(&receiver, &position)
		lowest[receiver] = position
		return err
	}))
}

// heldPart is a row of held.
type heldPart struct {
	receiver, key string
	position      uint64
	entry         sql.Null[uint64]
}

// DropHeld removes occurrences that another leader delivered from groups and from
// messages of groups. If a message loses a part, the message is removed and its other
// parts wait in their group again.
func (s *Store) DropHeld(ctx context.Context, delivered DeliveredOffsets) error {
	return s.write(ctx, "drop delivered occurrences of groups", func(ctx context.Context, tx *tx) error {
		broken, err := tx.dropDelivered(ctx, delivered)
		if err != nil {
			return err
		}
		for entry, receiver := range broken {
			if err := tx.undoMessage(ctx, receiver, entry); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropDelivered removes the parts that were delivered. It returns the messages they were
// in, with their receivers.
func (tx *tx) dropDelivered(ctx context.Context, delivered DeliveredOffsets) (broken map[uint64]string, err error) {
	parts, err := tx.allParts(ctx)
	if err != nil {
		return nil, err
	}
	broken = map[uint64]string{}
	for _, p := range parts {
		if !delivered.Covers(p.receiver, p.key, p.position) {
			continue
		}
		if err := tx.dropPart(ctx, p); err != nil {
			return nil, err
		}
		if p.entry.Valid {
			broken[p.entry.V] = p.receiver
		}
	}
	return broken, nil
}

func (tx *tx) allParts(ctx context.Context) (parts []heldPart, err error) {
	rows, err := tx.query(ctx, `SELECT receiver, key, position, entry FROM held`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var p heldPart
		err := rows.Scan(&p.receiver, &p.key, &p.position, &p.entry)
		parts = append(parts, p)
		return err
	})
	return parts, err
}

func (tx *tx) dropPart(ctx context.Context, p heldPart) error {
	_, err := tx.exec(ctx, `DELETE FROM held WHERE receiver = ? AND key = ?`, p.receiver, p.key)
	tx.after(func(m *memory) { m.unheld(p.receiver, 1) })
	return err
}

// exactID selects the entry whose ID is the bound.
var exactID = selection{column: "id", also: " AND id >= ?2"}

// undoMessage removes a message of a group and keeps its parts.
func (tx *tx) undoMessage(ctx context.Context, receiver string, entry uint64) error {
	if _, err := tx.exec(ctx, `UPDATE held SET entry = NULL WHERE entry = ?`, entry); err != nil {
		return err
	}
	if err := tx.delete(ctx, receiver, exactID, entry); err != nil {
		return err
	}
	return tx.dropBrokenAttempt(ctx, receiver)
}
