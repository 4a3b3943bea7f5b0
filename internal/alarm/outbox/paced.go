package outbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"
)

// slot is the part of a group that is due at one time.
type slot struct {
	due time.Time
	// first: it begins the group.
	resolves, first bool
	count           int64
}

// isNotice reports whether the slot is the notice of an acknowledgement, which is a message of its
// own.
func (s *slot) isNotice() bool { return s.count == 0 && !s.resolves }

// isUrgent reports whether the slot does not wait for the interval.
func (s *slot) isUrgent() bool { return s.resolves || s.isNotice() }

// lastResolves is whether the last of several parts of a group resolves it. A resolution can have
// the same total as the occurrence before it.
const lastResolves = `max(total * 2 + resolved) % 2`

const selectDueSlots = `
	SELECT due, ` + lastResolves + `, max(first), sum(count) FROM held INDEXED BY held_by_group
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due <= ?3 AND (NOT ends OR due <= ?4 AND ` + nothingParked + `)
	GROUP BY due ORDER BY due`

// dueSlots returns the slots of a group that are due, in order.
func (tx *tx) dueSlots(ctx context.Context, g groupKey, now time.Time, readUpTo int64) (slots []slot, err error) {
	rows, err := tx.query(ctx, selectDueSlots, g.receiver, g.group, micros(now), readUpTo)
	return slots, each(rows, err, func(rows *sql.Rows) error {
		var s slot
		err := rows.Scan(timestamp{&s.due}, &s.resolves, &s.first, &s.count)
		slots = append(slots, s)
		return err
	})
}

// inOneMessage returns how many of the slots, which are due, the next message has. Only a message
// that was late leaves more than one. A resolution ends the message. It is a message of its own
// if the group was never reported, so that the receiver gets each change of the state.
func inOneMessage(slots []slot) int {
	n := 1
	for ; n < len(slots); n++ {
		next := &slots[n]
		if slots[n-1].isUrgent() || next.isNotice() || next.first || next.resolves && slots[0].first {
			break
		}
	}
	return n
}

// releaseGroup makes the next message of a group, and returns the number of its parts. It makes
// none before the interval since the last message is over, unless a resolution is due. Neither
// that nor anything before it waits.
func (tx *tx) releaseGroup(ctx context.Context, g groupKey, now time.Time, readUpTo int64) (parts int64, err error) {
	slots, err := tx.dueSlots(ctx, g, now, readUpTo)
	if len(slots) == 0 || err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(slots, func(s slot) bool { return s.isUrgent() }) {
		waits, until, err := tx.awaitsInterval(ctx, g, now)
		if err != nil {
			return 0, err
		}
		if waits {
			return 0, tx.holdBack(ctx, g, now, until)
		}
	}
	n := inOneMessage(slots)
	return tx.releaseMessage(ctx, dueMessage{groupKey: g, from: slots[0].due, due: slots[n-1].due})
}

const (
	// selectLastMessage selects whether the newest message of a group that is not acknowledged
	// resolves it.
	selectLastMessage = `
		SELECT ` + lastResolves + ` FROM held INDEXED BY held_of_message
		WHERE receiver = ?1 AND group_id = ?2 AND entry IS NOT NULL GROUP BY entry ORDER BY entry DESC LIMIT 1`
	selectAccepted = `SELECT accepted, interval FROM open_group WHERE receiver = ?1 AND id = ?2`
)

// awaitsInterval reports whether the next message of a group must wait: while the last one is not
// acknowledged, and then until the interval is over. until is zero if that is not known. A
// resolution and the group that begins after it are independent of each other.
func (tx *tx) awaitsInterval(ctx context.Context, g groupKey, now time.Time) (waits bool, until time.Time, err error) {
	var resolves bool
	err = tx.row(ctx, selectLastMessage, g.receiver, g.group).Scan(&resolves)
	if !errors.Is(err, sql.ErrNoRows) {
		return !resolves, time.Time{}, err
	}
	var accepted time.Time
	var interval int64
	err = tx.row(ctx, selectAccepted, g.receiver, g.group).Scan(timestamp{&accepted}, &interval)
	if errors.Is(err, sql.ErrNoRows) || err == nil && accepted.IsZero() {
		return false, time.Time{}, nil
	}
	until = accepted.Add(time.Duration(interval) * time.Microsecond)
	return until.After(now), until, err
}

const updateHoldBack = `
	UPDATE held INDEXED BY held_by_group SET release_at = nullif(?4, 0)
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due <= ?3 AND release_at <= ?3 AND NOT ends`

// holdBack lets what is due wait until a time, or until the last message is acknowledged.
// It does not hold back an end, which is due when the Events before it are read.
func (tx *tx) holdBack(ctx context.Context, g groupKey, now, until time.Time) error {
	_, err := tx.exec(ctx, updateHoldBack, g.receiver, g.group, micros(now), micros(until))
	return err
}

const (
	// selectFuture selects the groups whose last occurrence is in the future, and that wait for
	// then.
	selectFuture = `
		SELECT receiver, id, newest FROM open_group WHERE newest > ?1 AND EXISTS (
			SELECT 1 FROM held INDEXED BY held_by_group
			WHERE held.receiver = open_group.receiver AND held.group_id = open_group.id AND entry IS NULL AND due > ?1 AND NOT ends)`

	updateEarlierGroup = `
		UPDATE open_group SET newest = newest - ?3, due = due - ?3, first = iif(first > 0, first - ?3, 0),
			released = iif(released > 0, released - ?3, 0), paced = iif(paced > 0, paced - ?3, 0)
		WHERE receiver = ?1 AND id = ?2`
	updateEarlierHeld = `
		UPDATE held SET due = due - ?3, release_at = release_at - ?3 WHERE receiver = ?1 AND group_id = ?2 AND NOT ends`
)

// moveFuture moves the groups that wait for a time in the future, because the clock was set back.
// Their last occurrence is then now. The begin of a group identifies it, and does not change. The
// group stays open for as long as before.
func (tx *tx) moveFuture(ctx context.Context, now time.Time) error {
	type future struct {
		groupKey
		newest time.Time
	}
	var all []future
	rows, err := tx.query(ctx, selectFuture, micros(now.Add(clockMargin)))
	err = each(rows, err, func(rows *sql.Rows) error {
		var f future
		err := rows.Scan(&f.receiver, &f.group, timestamp{&f.newest})
		all = append(all, f)
		return err
	})
	for i := 0; i < len(all) && err == nil; i++ {
		f, by := &all[i], all[i].newest.Sub(now).Truncate(time.Second).Microseconds()
		_, err = tx.exec(ctx, updateEarlierGroup, f.receiver, f.group, by)
		if err == nil {
			_, err = tx.exec(ctx, updateEarlierHeld, f.receiver, f.group, by)
		}
	}
	return err
}

// releaseAgain decides again about all that is held back. It is for a new process, and after the
// clock was set back. A group would wait long for an interval that began in the future.
func (tx *tx) releaseAgain(ctx context.Context, now time.Time) error {
	if _, err := tx.exec(ctx, `UPDATE open_group SET accepted = ?1 WHERE accepted > ?1`, micros(now)); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `UPDATE held SET release_at = due WHERE entry IS NULL AND release_at IS NOT due`)
	return err
}

// updateAccepted records when entries were accepted, in the groups that have messages among them.
// It sets 0 if the last one resolves the group. If they were not accepted, the time is null, and
// nothing else changes.
const updateAccepted = `
	WITH message AS (
		SELECT group_id, max(id) AS id FROM entry WHERE id IN (SELECT value FROM json_each(?2)) AND group_id <> '' GROUP BY group_id)
	UPDATE open_group SET accepted = iif(
		(SELECT ` + lastResolves + ` FROM held WHERE entry = (SELECT id FROM message WHERE group_id = open_group.id)), 0, coalesce(?3, accepted))
	WHERE receiver = ?1 AND id IN (SELECT group_id FROM message)`

// putAccepted records that the receiver accepted the messages of groups among some entries. The
// time is null if they are dropped.
func (tx *tx) putAccepted(ctx context.Context, receiver string, entries []int64, accepted sql.Null[int64]) error {
	_, err := tx.exec(ctx, updateAccepted, receiver, jsonColumn{entries}, accepted)
	return err
}

// GroupSent returns a channel that receives a value after a message of a group was removed. The
// next message of the group can then be due.
func (s *Store) GroupSent() <-chan struct{} { return s.memory.groupSent }

// sentGroup announces that a message of a group was removed.
func (m *memory) sentGroup() {
	select {
	case m.groupSent <- struct{}{}:
	default:
	}
}
