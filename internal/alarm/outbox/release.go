package outbox

import (
	"context"
	"database/sql"
	"slices"
	"time"
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

// Composer makes the payload and the key of a message of its parts, oldest first, 1,000
// at most. count is the number of occurrences of all parts. The key must be unique.
type Composer func(g Group, parts []Entry, count int64) (key string, payload []byte, err error)

// releasedAtOnce limits the messages that are made in one transaction.
const releasedAtOnce = 100

// Released is the number of messages of groups that were put into the outbox, and of
// their parts.
type Released struct{ Messages, Parts int64 }

// Release makes a message for each group that has one due. It returns the number of
// messages by receiver, also if it fails later.
func (s *Store) Release(ctx context.Context, compose Composer) (receivers map[string]Released, err error) {
	receivers = map[string]Released{}
	for {
		var made map[string]Released
		err = s.write(ctx, "release messages of groups", func(ctx context.Context, tx *tx) (err error) {
			made, err = tx.release(ctx, s.clock.Now(), compose)
			return err
		})
		if len(made) == 0 || err != nil {
			return receivers, err
		}
		for receiver, r := range made {
			r.Messages, r.Parts = r.Messages+receivers[receiver].Messages, r.Parts+receivers[receiver].Parts
			receivers[receiver] = r
		}
	}
}

const selectNextDue = `SELECT due FROM held WHERE entry IS NULL AND due > 0 ORDER BY due LIMIT 1`

// NextDue returns when the next message of a group is due, zero if nothing waits.
func (s *Store) NextDue(ctx context.Context) (due time.Time, err error) {
	rows, err := s.readers.QueryContext(ctx, selectNextDue)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(timestamp{&due}) })
	return due, s.read("read the next due time", err)
}

// dueMessage is a message of a group that is due.
type dueMessage struct {
	receiver, group string
	due             time.Time
}

const selectDue = `
	SELECT receiver, group_id, due FROM held WHERE entry IS NULL AND due <= ?1 ORDER BY due LIMIT ?2`

func (tx *tx) release(ctx context.Context, now time.Time, compose Composer) (made map[string]Released, err error) {
	made = map[string]Released{}
	var due []dueMessage
	rows, err := tx.query(ctx, selectDue, micros(now), releasedAtOnce)
	err = each(rows, err, func(rows *sql.Rows) error {
		var m dueMessage
		err := rows.Scan(&m.receiver, &m.group, timestamp{&m.due})
		if !slices.Contains(due, m) {
			due = append(due, m)
		}
		return err
	})
	for i := 0; i < len(due) && err == nil; i++ {
		var parts int64
		parts, err = tx.releaseMessage(ctx, due[i], compose)
		of := made[due[i].receiver]
		made[due[i].receiver] = Released{Messages: of.Messages + 1, Parts: of.Parts + parts}
	}
	return made, err
}

// releaseMessage makes one message and returns the number of its parts. It never adds
// occurrences that are due later: a message that is made late is the same as one made in
// time.
func (tx *tx) releaseMessage(ctx context.Context, m dueMessage, compose Composer) (made int64, err error) {
	g, e, parts, err := tx.parts(ctx, m)
	if err != nil {
		return 0, err
	}
	if e.Key, e.Payload, err = compose(g, parts, e.Count); err != nil {
		return 0, err
	}
	state, err := tx.state(ctx)
	if err != nil {
		return 0, err
	}
	// The position is after all Events that are read, so that the message does not lower
	// the delivered offset of the receiver. HeldKeys reports its parts.
	e.Position = max(state.Position, state.Delivered.Offset(m.receiver)) + 1
	e.CreatedAt = latest(e.CreatedAt, m.due) // it could not be sent earlier
	entry, err := tx.insertReleased(ctx, e, m.group)
	if err != nil {
		return 0, err
	}
	if made, err = tx.exec(ctx, updateParts, m.receiver, m.group, micros(m.due), entry); err != nil {
		return 0, err
	}
	_, err = tx.exec(ctx, `UPDATE open_group SET released = max(released, ?3) WHERE receiver = ?1 AND id = ?2`,
		m.receiver, m.group, micros(m.due))
	return made, err
}

// updateParts names its index, because messages of very many groups can be due in the
// same second.
const updateParts = `
	UPDATE held INDEXED BY held_by_group SET entry = ?4 WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due = ?3`

const selectParts = `
	SELECT alarm, key, position, count, created_at, payload, since, total, first, resolved FROM held INDEXED BY held_by_group
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due = ?3 ORDER BY position`

// parts reads a message that is due: the state of the group after the last part, the new
// entry, and the parts.
func (tx *tx) parts(ctx context.Context, m dueMessage) (g Group, e *Entry, parts []Entry, err error) {
	g, e = Group{ID: m.group}, &Entry{Receiver: m.receiver}
	rows, err := tx.query(ctx, selectParts, m.receiver, m.group, micros(m.due))
	err = each(rows, err, func(rows *sql.Rows) error {
		var p Entry
		if err := rows.Scan(&p.Alarm, &p.Key, &p.Position, &p.Count, timestamp{&p.CreatedAt}, &p.Payload,
			timestamp{&g.Since}, &g.Total, &g.First, &g.Resolved); err != nil {
			return err
		}
		e.Alarm, e.Count, e.CreatedAt = p.Alarm, e.Count+p.Count, latest(e.CreatedAt, p.CreatedAt)
		if len(parts) < maxParts {
			parts = append(parts, p)
		}
		return nil
	})
	if err != nil {
		return g, e, nil, err
	}
	g.Total = max(g.Total, e.Count) // after a replay that began within the group
	rows, err = tx.query(ctx, `SELECT by FROM open_group WHERE receiver = ? AND id = ?`, m.receiver, m.group)
	return g, e, parts, each(rows, err, func(rows *sql.Rows) error { return rows.Scan(&g.By) })
}

func (tx *tx) insertReleased(ctx context.Context, e *Entry, id string) (entry int64, err error) {
	err = tx.row(ctx, `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, payload, group_id) VALUES (?, ?, ?, ?, ?, ?, ifnull(?, x''), ?) RETURNING id`,
		e.Receiver, e.Alarm, e.Key, e.Position, e.Count, micros(e.CreatedAt), e.Payload, id).Scan(&entry)
	tx.after(func(m *memory) { m.added(e.Receiver, e.Position) })
	return entry, err
}
