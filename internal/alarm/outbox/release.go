package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"io"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// releasedAtOnce limits the messages that are made in one transaction.
const releasedAtOnce = 100

// Released is the number of messages of groups that were put into the outbox, and of
// their parts.
type Released struct{ Messages, Parts int64 }

// Release makes a message for each group that has one due. It returns the number of
// messages by receiver, also if it fails later.
func (s *Store) Release(ctx context.Context) (receivers map[string]Released, err error) {
	receivers = map[string]Released{}
	again := s.clock.Now().Add(clockMargin).UnixMicro() < s.releasedAt.Load() || s.releasedAt.Load() == 0
	for more := true; more; again = false {
		var made map[string]Released
		err = s.writeBounded(ctx, "release messages of groups", func(ctx context.Context, tx *tx) (err error) {
			if again {
				if err := tx.releaseAgain(ctx, s.clock.Now()); err != nil {
					return err
				}
			}
			made, more, err = tx.release(ctx, s.clock.Now(), s.readUpTo.Load())
			return err
		})
		if err != nil {
			return receivers, err
		}
		s.releasedAt.Store(s.clock.Now().UnixMicro())
		for receiver, r := range made {
			r.Messages, r.Parts = r.Messages+receivers[receiver].Messages, r.Parts+receivers[receiver].Parts
			receivers[receiver] = r
		}
	}
	return receivers, nil
}

// ReadUpTo records that all Events that happened before a time are committed. Ends of groups
// that are due later wait: something can have happened that was not read. It is not stored,
// so that ends wait after a restart. An earlier time than before has no effect, unless that is in
// the future, because the clock was set back.
func (s *Store) ReadUpTo(t time.Time) {
	for n, now := t.UnixMicro(), s.clock.Now().UnixMicro(); ; {
		before := s.readUpTo.Load()
		if n <= before && before <= now || s.readUpTo.CompareAndSwap(before, n) {
			return
		}
	}
}

// nothingParked is true for an end of a group if no occurrence that could be in the group is
// parked.
const nothingParked = `NOT EXISTS (
	SELECT 1 FROM open_group g JOIN parked ON parked.tenant = g.tenant WHERE g.receiver = held.receiver AND g.id = held.group_id)`

const selectNextDue = `
	SELECT release_at FROM held WHERE entry IS NULL AND release_at > 0 AND (NOT ends OR release_at <= ?1 AND ` + nothingParked + `) ORDER BY release_at LIMIT 1`

// NextDue returns when the next message of a group can be made, zero if that is not known. It
// ignores ends that must wait.
func (s *Store) NextDue(ctx context.Context) (due time.Time, err error) {
	rows, err := s.readers.QueryContext(ctx, selectNextDue, s.readUpTo.Load())
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(timestamp{&due}) })
	return due, s.read("read the next due time", err)
}

// dueMessage is a message of a group, with the parts that are due from a time on.
type dueMessage struct {
	groupKey
	tenant    string
	from, due time.Time
	state     *group.State
}

const selectDue = `
	SELECT receiver, group_id FROM held WHERE entry IS NULL AND release_at <= ?1 AND (NOT ends OR release_at <= ?3 AND ` + nothingParked + `)
	ORDER BY release_at LIMIT ?2`

// release makes at most one message of each group. more is true if there can be others.
func (tx *tx) release(ctx context.Context, now time.Time, readUpTo int64) (made map[string]Released, more bool, err error) {
	made = map[string]Released{}
	if err := tx.moveFuture(ctx, now); err != nil {
		return nil, false, err
	}
	var due []groupKey
	rows, err := tx.query(ctx, selectDue, micros(now), releasedAtOnce, readUpTo)
	err = each(rows, err, func(rows *sql.Rows) error {
		var g groupKey
		err := rows.Scan(&g.receiver, &g.group)
		if !slices.Contains(due, g) {
			due = append(due, g)
		}
		return err
	})
	for i := 0; i < len(due) && err == nil; i++ {
		var parts int64
		parts, err = tx.releaseGroup(ctx, due[i], now, readUpTo)
		if parts > 0 {
			of := made[due[i].receiver]
			made[due[i].receiver] = Released{Messages: of.Messages + 1, Parts: of.Parts + parts}
		}
	}
	return made, len(due) > 0, err
}

const selectDueSlots = `
	SELECT due, ` + lastResolves + `, max(first), sum(count) FROM held INDEXED BY held_by_group
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due <= ?3 AND (NOT ends OR due <= ?4 AND ` + nothingParked + `)
	GROUP BY due ORDER BY due`

// dueParts returns the parts of a group that are due, in order.
func (tx *tx) dueParts(ctx context.Context, g groupKey, now time.Time, readUpTo int64) (parts []group.Part, err error) {
	rows, err := tx.query(ctx, selectDueSlots, g.receiver, g.group, micros(now), readUpTo)
	return parts, each(rows, err, func(rows *sql.Rows) error {
		var p group.Part
		err := rows.Scan(timestamp{&p.Due}, &p.Resolves, &p.First, &p.Count)
		parts = append(parts, p)
		return err
	})
}

// releaseGroup makes the next message of a group, and returns the number of its parts.
func (tx *tx) releaseGroup(ctx context.Context, g groupKey, now time.Time, readUpTo int64) (parts int64, err error) {
	due, err := tx.dueParts(ctx, g, now, readUpTo)
	if len(due) == 0 || err != nil {
		return 0, err
	}
	of, _, err := tx.group(ctx, g.receiver, g.group)
	if err != nil {
		return 0, err
	}
	last, err := tx.lastMessage(ctx, g)
	if err != nil {
		return 0, err
	}
	n, until := of.Message(due, last, now)
	if n == 0 {
		return 0, tx.holdBack(ctx, g, now, until)
	}
	return tx.releaseMessage(ctx, dueMessage{groupKey: g, tenant: of.tenant, from: due[0].Due, due: due[n-1].Due, state: &of.State})
}

// releaseMessage makes one message and returns the number of its parts. It never adds
// occurrences that are not due. The message has no content of its own: see composeMessage.
func (tx *tx) releaseMessage(ctx context.Context, m dueMessage) (made int64, err error) {
	e, ends, err := tx.sumParts(ctx, m)
	if err != nil {
		return 0, err
	}
	e.CreatedAt = alarm.Later(e.CreatedAt, m.due) // it could not be sent earlier
	entry, err := tx.insertReleased(ctx, e, m.group)
	if err != nil {
		return 0, err
	}
	if made, err = tx.exec(ctx, updateParts, m.receiver, m.group, micros(m.from), micros(m.due), entry); err != nil {
		return 0, err
	}
	tx.recount(e.Alarm)
	m.state.Release(m.due, ends)
	return made, tx.updateGroup(ctx, m.receiver, m.group, m.state)
}

// updateParts names its index, because messages of very many groups can be due in the
// same second.
const updateParts = `
	UPDATE held INDEXED BY held_by_group SET entry = ?5 WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due BETWEEN ?3 AND ?4`

const selectDueParts = `
	SELECT alarm, key, count, created_at FROM held INDEXED BY held_by_group
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due BETWEEN ?3 AND ?4 ORDER BY due, position, key`

// sumParts returns the entry of a message that is due, and whether the end of the group is one of its
// parts. Its key is a hash of the keys of the parts.
func (tx *tx) sumParts(ctx context.Context, m dueMessage) (e *Entry, ends bool, err error) {
	e = &Entry{Receiver: m.receiver, Tenant: m.tenant}
	keys := sha256.New()
	rows, err := tx.query(ctx, selectDueParts, m.receiver, m.group, micros(m.from), micros(m.due))
	err = each(rows, err, func(rows *sql.Rows) error {
		var p Entry
		err := rows.Scan(&p.Alarm, &p.Key, &p.Count, timestamp{&p.CreatedAt})
		e.Alarm, e.Count, e.CreatedAt = p.Alarm, e.Count+p.Count, alarm.Later(e.CreatedAt, p.CreatedAt)
		ends = ends || p.Key == m.state.Ending
		_, _ = io.WriteString(keys, p.Key+"\x00") // a hash does not fail
		return err
	})
	e.Key = hex.EncodeToString(keys.Sum(nil)[:16])
	return e, ends, err
}

// insertReleased stores a message of a group. Its parts have positions and use space.
func (tx *tx) insertReleased(ctx context.Context, e *Entry, id string) (entry int64, err error) {
	err = tx.row(ctx, `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, group_id, subject, tenant, aside)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, `+isAside+`) RETURNING id`,
		e.Receiver, e.Alarm, e.Key, e.Position, e.Count, micros(e.CreatedAt), id, laneOf(id), e.Tenant).Scan(&entry)
	tx.after(func(m *memory) { m.added(e.Receiver, 0, false) })
	return entry, err
}
