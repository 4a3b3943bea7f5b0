package ledger

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
	// Since is when the first of the group happened, Total how often by now.
	Since time.Time
	Total int64
	// First: no message of it was put into the outbox before.
	First bool
	// Resolved: its newest part resolves it.
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
func (l *Ledger) Release(ctx context.Context, compose Composer) (receivers map[string]Released, err error) {
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
func (l *Ledger) NextDue(ctx context.Context) (due time.Time, err error) {
	rows, err := l.readers.QueryContext(ctx, selectNextDue)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(stamp{&due}) })
	return due, l.read("reading what is due", err)
}

const selectDueGroups = `
	SELECT receiver, grp FROM held WHERE entry IS NULL AND due <= ?1 ORDER BY due LIMIT ?2`

func (tx *tx) release(ctx context.Context, now time.Time, compose Composer) (made map[string]Released, err error) {
	made = map[string]Released{}
	var due [][2]string
	rows, err := tx.query(ctx, selectDueGroups, micros(now), releasedAtOnce)
	err = each(rows, err, func(rows *sql.Rows) error {
		var g [2]string
		err := rows.Scan(&g[0], &g[1])
		if !slices.Contains(due, g) {
			due = append(due, g)
		}
		return err
	})
	for i := 0; i < len(due) && err == nil; i++ {
		var parts int64
		parts, err = tx.releaseGroup(ctx, due[i][0], due[i][1], now, compose)
		of := made[due[i][0]]
		made[due[i][0]] = Released{Messages: of.Messages + 1, Parts: of.Parts + parts}
	}
	return made, err
}

// releaseGroup makes the message of what is due of a group, and returns of how many
// parts.
func (tx *tx) releaseGroup(ctx context.Context, receiver, id string, now time.Time, compose Composer) (int64, error) {
	e, parts, until, err := tx.parts(ctx, receiver, id, now)
	if err != nil {
		return 0, err
	}
	g, err := tx.told(ctx, receiver, id, until)
	if err != nil {
		return 0, err
	}
	g.Total = max(g.Total, e.Count) // of a replay that did not find the group's begin
	if e.Key, e.Payload, err = compose(g, parts, e.Count); err != nil {
		return 0, err
	}
	s, err := tx.state(ctx)
	if err != nil {
		return 0, err
	}
	// What was read so far is before it in the receiver's queue, so that this alone
	// does not hold the receiver's position back: see HeldKeys.
	e.Position = max(s.Position, s.Floors.Of(receiver)) + 1
	// It could not be sent before it was due.
	e.CreatedAt = latest(e.CreatedAt, until)
	entry, err := tx.insertReleased(ctx, e, id)
	if err != nil {
		return 0, err
	}
	n, err := tx.exec(ctx, `UPDATE held SET entry = ?, payload = x'' WHERE receiver = ? AND grp = ? AND entry IS NULL AND due <= ?`,
		entry, receiver, id, micros(until))
	tx.after(func(m *memory) { m.released(receiver, n) })
	return n, err
}

const selectParts = `
	SELECT alarm, key, position, count, created_at, due, payload FROM held
	WHERE receiver = ?1 AND grp = ?2 AND entry IS NULL AND due <= ?3 ORDER BY position`

// parts reads what is due of a group: what is to be one entry, the parts as far as
// they are kept, and when the latest of them was due.
func (tx *tx) parts(ctx context.Context, receiver, id string, now time.Time) (e *Entry, parts []Entry, until time.Time, err error) {
	e = &Entry{Receiver: receiver}
	rows, err := tx.query(ctx, selectParts, receiver, id, micros(now))
	err = each(rows, err, func(rows *sql.Rows) error {
		var p Entry
		var due time.Time
		if err := rows.Scan(&p.Alarm, &p.Key, &p.Position, &p.Count, stamp{&p.CreatedAt}, stamp{&due}, &p.Payload); err != nil {
			return err
		}
		e.Alarm, e.Count, e.CreatedAt = p.Alarm, e.Count+p.Count, latest(e.CreatedAt, p.CreatedAt)
		until = latest(until, due)
		if len(parts) < maxParts {
			parts = append(parts, p)
		}
		return nil
	})
	return e, parts, until, err
}

// told notes that a message of the group is made, and returns what it says of it.
func (tx *tx) told(ctx context.Context, receiver, id string, until time.Time) (Group, error) {
	g := Group{ID: id, First: true}
	rows, err := tx.query(ctx, `SELECT by, since, total, released = 0, resolved AND due <= ?3 FROM grp WHERE receiver = ?1 AND id = ?2`,
		receiver, id, micros(until))
	err = each(rows, err, func(rows *sql.Rows) error {
		return rows.Scan(&g.By, stamp{&g.Since}, &g.Total, &g.First, &g.Resolved)
	})
	if err != nil {
		return Group{}, err
	}
	_, err = tx.exec(ctx, `UPDATE grp SET released = max(released, ?3) WHERE receiver = ?1 AND id = ?2`, receiver, id, micros(until))
	return g, err
}

func (tx *tx) insertReleased(ctx context.Context, e *Entry, id string) (entry int64, err error) {
	err = tx.row(ctx, `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, payload, grp) VALUES (?, ?, ?, ?, ?, ?, ifnull(?, x''), ?) RETURNING id`,
		e.Receiver, e.Alarm, e.Key, e.Position, e.Count, micros(e.CreatedAt), e.Payload, id).Scan(&entry)
	tx.after(func(m *memory) { m.added(e.Receiver, e.Position) })
	return entry, err
}

// Held is what waits in a receiver's groups: the position of each Entry.Key.
type Held map[string]uint64

// HeldKeys returns all that waits in groups, or in messages of groups that are not
// settled, by receiver; and false if there is more than a limit.
func (l *Ledger) HeldKeys(ctx context.Context, limit int) (held map[string]Held, complete bool, err error) {
	held, n := map[string]Held{}, 0
	rows, err := l.readers.QueryContext(ctx, `SELECT receiver, key, position FROM held LIMIT ?`, limit+1)
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
	return held, n <= limit, l.read("reading what waits", err)
}

// LowestHeld returns, of each receiver for which something waits in groups or their
// messages, the lowest position of it.
func (l *Ledger) LowestHeld(ctx context.Context) (map[string]uint64, error) {
	lowest := map[string]uint64{}
	rows, err := l.readers.QueryContext(ctx, `SELECT receiver, min(position) FROM held GROUP BY receiver`)
	return lowest, l.read("reading what waits", each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		var position uint64
		err := rows.Scan(&receiver, &position)
		lowest[receiver] = position
		return err
	}))
}
