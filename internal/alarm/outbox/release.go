package outbox

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// Group is one of which a message is to be sent.
type Group struct {
	// ID is Membership.Group, By is Membership.By.
	ID string
	By []byte
	// Since is when the first of the group happened, Total how often up to this message.
	Since time.Time
	Total int64
	// First: it is the group's first message.
	First bool
	// Resolved: the last of it resolves the group.
	Resolved bool
}

// maxParts is of how many parts of a message the payload is read; the others are
// counted.
const maxParts = 1_000

// Composer makes a message's payload and key of the parts, the oldest first, of which
// it is given at most 1,000; count is of all. The key is no other entry's.
type Composer func(g Group, parts []Entry, count int64) (key string, payload []byte, err error)

// releasedAtOnce is how many groups' messages are made in one transaction at most.
const releasedAtOnce = 100

// Released is how many messages of groups were put into the outbox, and of how many
// parts they were made.
type Released struct{ Messages, Parts int64 }

// Release puts a message of each group that has one due into the outbox, and returns
// whose they are; with an error, those that were put there before.
func (l *Store) Release(ctx context.Context, compose Composer) (receivers map[string]Released, err error) {
	receivers = map[string]Released{}
	for {
		var made map[string]Released
		err = l.write(ctx, "releasing messages", func(ctx context.Context, tx *tx) (err error) {
			made, err = tx.release(ctx, l.clock.Now(), compose)
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

// NextDue returns when the next message of a group is due; the zero time if there is
// nothing to wait for.
func (l *Store) NextDue(ctx context.Context) (due time.Time, err error) {
	rows, err := l.readers.QueryContext(ctx, selectNextDue)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(timestamp{&due}) })
	return due, l.read("reading what is due", err)
}

// slot is a message of a group that is due.
type dueMessage struct {
	receiver, group string
	due             time.Time
}

const selectDue = `
	SELECT receiver, grp, due FROM held WHERE entry IS NULL AND due <= ?1 ORDER BY due LIMIT ?2`

func (tx *tx) release(ctx context.Context, now time.Time, compose Composer) (made map[string]Released, err error) {
	made = map[string]Released{}
	var due []dueMessage
	rows, err := tx.query(ctx, selectDue, micros(now), releasedAtOnce)
	err = each(rows, err, func(rows *sql.Rows) error {
		var s dueMessage
		err := rows.Scan(&s.receiver, &s.group, timestamp{&s.due})
		if !slices.Contains(due, s) {
			due = append(due, s)
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

// releaseSlot makes one message. What is due later is not put into it, however late
// it is: the messages are the same then as they would have been in time. It returns how
// many parts the message has.
func (tx *tx) releaseMessage(ctx context.Context, s dueMessage, compose Composer) (made int64, err error) {
	g, e, parts, err := tx.parts(ctx, s)
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
	// What was read so far is before it in the receiver's queue, so that this alone
	// does not hold the receiver's position back: see HeldKeys.
	e.Position = max(state.Position, state.Delivered.Offset(s.receiver)) + 1
	e.CreatedAt = latest(e.CreatedAt, s.due) // it could not be sent before
	entry, err := tx.insertReleased(ctx, e, s.group)
	if err != nil {
		return 0, err
	}
	if made, err = tx.exec(ctx, updateParts, s.receiver, s.group, micros(s.due), entry); err != nil {
		return 0, err
	}
	_, err = tx.exec(ctx, `UPDATE grp SET released = max(released, ?3) WHERE receiver = ?1 AND id = ?2`,
		s.receiver, s.group, micros(s.due))
	return made, err
}

// Of very many groups a message may be due in the same second: hence the index.
const updateParts = `
	UPDATE held INDEXED BY held_by_group SET entry = ?4 WHERE receiver = ?1 AND grp = ?2 AND entry IS NULL AND due = ?3`

const selectParts = `
	SELECT alarm, key, position, count, created_at, payload, since, total, first, resolved FROM held INDEXED BY held_by_group
	WHERE receiver = ?1 AND grp = ?2 AND entry IS NULL AND due = ?3 ORDER BY position`

// parts reads a message that is due: what is said of the group, which is as it was
// with the last part, what is to be one entry, and the parts as far as they are kept.
func (tx *tx) parts(ctx context.Context, s dueMessage) (g Group, e *Entry, parts []Entry, err error) {
	g, e = Group{ID: s.group}, &Entry{Receiver: s.receiver}
	rows, err := tx.query(ctx, selectParts, s.receiver, s.group, micros(s.due))
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
	g.Total = max(g.Total, e.Count) // of a replay that did not find the group's begin
	rows, err = tx.query(ctx, `SELECT by FROM grp WHERE receiver = ? AND id = ?`, s.receiver, s.group)
	return g, e, parts, each(rows, err, func(rows *sql.Rows) error { return rows.Scan(&g.By) })
}

func (tx *tx) insertReleased(ctx context.Context, e *Entry, id string) (entry int64, err error) {
	err = tx.row(ctx, `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, payload, grp) VALUES (?, ?, ?, ?, ?, ?, ifnull(?, x''), ?) RETURNING id`,
		e.Receiver, e.Alarm, e.Key, e.Position, e.Count, micros(e.CreatedAt), e.Payload, id).Scan(&entry)
	tx.after(func(m *memory) { m.added(e.Receiver, e.Position) })
	return entry, err
}
