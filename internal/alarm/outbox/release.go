package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// Group describes a group when a message of it is made.
type Group struct {
	// ID is Membership.Group, By is Membership.By.
	ID string
	By []byte
	// Since is the time of the first occurrence. Total is the number of occurrences up to
	// this message.
	Since time.Time
	Total int64
	// First is true for the first message of the group.
	First bool
	// Resolved is true if the last part resolves the group.
	Resolved bool
}

// maxParts limits the parts of a message whose payload is read. The other parts are only
// counted.
const maxParts = 1_000

// Composer makes the payload of a group's message from its parts, oldest first, 1,000 at
// most. count is the number of occurrences of all parts. The same parts make the same
// payload.
type Composer func(g Group, parts []Entry, count int64) (payload []byte, err error)

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

// groupKey identifies a group of a receiver.
type groupKey struct{ receiver, group string }

// dueMessage is a message of a group, with the parts that are due from a time on.
type dueMessage struct {
	groupKey
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

// releaseMessage makes one message and returns the number of its parts. It never adds
// occurrences that are not due. The message has no content of its own: see composeMessage.
func (tx *tx) releaseMessage(ctx context.Context, m dueMessage) (made int64, err error) {
	e, ends, err := tx.sumParts(ctx, m)
	if err != nil {
		return 0, err
	}
	state, err := tx.state(ctx)
	if err != nil {
		return 0, err
	}
	// The position is after all Events that are read, so that the message does not lower
	// the delivered offset of the receiver. HeldKeys reports its parts.
	e.Position = max(state.Position, state.Delivered.Offset(m.receiver)) + 1
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
	e = &Entry{Receiver: m.receiver}
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

// selectGroupOf selects the state of the group after the last part of a message. The message is
// the first of the group if its first part was due in that.
const (
	selectGroupOf = `
	SELECT by, since, total, (SELECT first FROM held WHERE entry = ?1 ORDER BY due LIMIT 1), resolved FROM held JOIN content ON content.id = held.content
	WHERE entry = ?1 ORDER BY due DESC, position DESC, key DESC LIMIT 1`
	selectParts = `
	SELECT held.alarm, key, stream, position, count, created_at, ends, data FROM held JOIN content ON content.id = held.content
	WHERE entry = ?1 ORDER BY due, position, key LIMIT ?2`
	selectChange = `SELECT 1 FROM held INDEXED BY held_change_by_entry WHERE entry = ?1 AND stream <> '' LIMIT 1`
)

// inOrderOf returns a query for the parts of a message in their order in the group, if one of
// them is a change. Positions of changes and Events are not comparable. A resolution can have the
// same total as the occurrence before it.
func inOrderOf(changes bool, query string) string {
	if !changes {
		return query
	}
	return strings.NewReplacer("ORDER BY due DESC,", "ORDER BY due DESC, total DESC, resolved DESC, ends DESC,",
		"ORDER BY due,", "ORDER BY due, total, resolved, ends,").Replace(query)
}

// composeMessage returns the payload of a group's message, made from its parts.
func (s *Store) composeMessage(ctx context.Context, e *Entry, id string) ([]byte, error) {
	g := Group{ID: id}
	var changes bool
	if err := s.readers.QueryRowContext(ctx, selectChange, e.ID).Scan(&changes); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	err := s.readers.QueryRowContext(ctx, inOrderOf(changes, selectGroupOf), e.ID).Scan(&g.By, timestamp{&g.Since}, &g.Total, &g.First, &g.Resolved)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // it was finished meanwhile
	}
	if err != nil {
		return nil, err
	}
	g.Total = max(g.Total, e.Count) // after a replay that began within the group
	var parts []Entry
	rows, err := s.readers.QueryContext(ctx, inOrderOf(changes, selectParts), e.ID, maxParts)
	err = each(rows, err, func(rows *sql.Rows) error {
		p := Entry{Receiver: e.Receiver}
		p.Member = &Membership{Group: id}
		var ends bool
		err := rows.Scan(&p.Alarm, &p.Key, &p.Stream, &p.Position, &p.Count, timestamp{&p.CreatedAt}, &ends, &p.Payload)
		if ends {
			p.Member.Event.Kind = group.End
		}
		parts = append(parts, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.compose(g, parts, e.Count)
}

func (tx *tx) insertReleased(ctx context.Context, e *Entry, id string) (entry int64, err error) {
	var aside bool
	err = tx.row(ctx, `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, group_id, subject, aside)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, `+isAside+`) RETURNING id, aside`,
		e.Receiver, e.Alarm, e.Key, e.Position, e.Count, micros(e.CreatedAt), id, laneOf(id)).Scan(&entry, &aside)
	tx.after(func(m *memory) { m.added(e.Receiver, e.Position, aside) })
	return entry, err
}
