package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// What is kept of digests, so that what they leave out can be looked up: the newest of
// each receiver, and of all receivers together, for so long.
const (
	maxDigested    = 1_000
	maxDigestedAll = 20_000
	digestedLife   = 24 * time.Hour
)

// Digested is an entry that was told of in a digest: a message that stood for several.
type DigestedEntry struct {
	// Entry is as it was, but for Key and Position, which are not kept.
	Entry
	// Digest is the key of the message.
	Digest string
	// Delivered says that the message was accepted, and not given up.
	Delivered bool
	// SettledAt is when.
	EndedAt time.Time
}

const selectDigestedFloor = `SELECT id FROM entry WHERE receiver = ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3`

// selectAboutToGo finds, among the entries that the next chunk removes, those above a
// floor.
const selectDigestedEntries = `
	SELECT id, alarm, count, created_at, payload FROM entry
	WHERE receiver = ?1 AND id > ?2 AND id <= ?3 ORDER BY id`

// aboutToGo reads which entries of a digest are to be kept of those that the next call
// of remove takes away. They are written after that: then there is room, also in a file
// that may not grow.
func (tx *tx) digestedEntries(ctx context.Context, a *Attempt) (told []DigestedEntry, err error) {
	floor, err := tx.nth(ctx, selectDigestedFloor, a.Receiver, uint64(a.Last), maxDigested, 0)
	if err != nil {
		return nil, err
	}
	end, err := tx.nth(ctx, byID.nth(), a.Receiver, uint64(a.Last), chunk-1, uint64(a.Last))
	if err != nil || end <= floor {
		return nil, err
	}
	rows, err := tx.query(ctx, selectDigestedEntries, a.Receiver, floor, end)
	err = each(rows, err, func(rows *sql.Rows) error {
		d := DigestedEntry{Entry: Entry{Receiver: a.Receiver}, Digest: a.Key, Delivered: !a.GivenUp}
		err := rows.Scan(&d.ID, &d.Alarm, &d.Count, timestamp{&d.CreatedAt}, &d.Payload)
		told = append(told, d)
		return err
	})
	return told, err
}

// nth runs a query for one number, and returns another where there is none.
func (tx *tx) nth(ctx context.Context, query, receiver string, upTo uint64, offset int, otherwise uint64) (n uint64, err error) {
	err = tx.row(ctx, query, receiver, upTo, offset).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return otherwise, nil
	}
	return n, err
}

const (
	deleteDigestedOf = `
		DELETE FROM digested WHERE receiver = ?1
		AND id <= (SELECT id FROM digested WHERE receiver = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`
	deleteDigestedOld = `
		DELETE FROM digested WHERE settled_at <= max(?1,
		coalesce((SELECT settled_at FROM digested ORDER BY settled_at DESC LIMIT 1 OFFSET ?2), 0))`
)

// keepDigested stores what was told of in a digest, and forgets what there is no room
// for.
func (tx *tx) keepDigested(ctx context.Context, told []DigestedEntry, now time.Time) error {
	if len(told) == 0 {
		return nil
	}
	for i := range told {
		d := &told[i]
		_, err := tx.exec(ctx, `
			INSERT INTO digested (id, receiver, alarm, count, created_at, payload, digest, delivered, settled_at)
			VALUES (?, ?, ?, ?, ?, ifnull(?, x''), ?, ?, ?)`,
			d.ID, d.Receiver, d.Alarm, d.Count, micros(d.CreatedAt), d.Payload, d.Digest, d.Delivered, micros(now))
		if err != nil {
			return err
		}
	}
	if _, err := tx.exec(ctx, deleteDigestedOf, told[0].Receiver, maxDigested); err != nil {
		return err
	}
	_, err := tx.exec(ctx, deleteDigestedOld, micros(now.Add(-digestedLife)), maxDigestedAll)
	return err
}

// makeRoom gives up what is kept of digests for what is still to be sent, and says
// whether there was any.
func (l *Store) makeRoom(ctx context.Context) (made bool) {
	err := l.write(ctx, "forgetting digests", func(ctx context.Context, tx *tx) error {
		n, err := tx.exec(ctx, `DELETE FROM digested`)
		made, tx.freed = n > 0, true
		return err
	})
	return made && err == nil
}
