package outbox

import (
	"context"
	"database/sql"
	"time"
)

// Limits of the entries of past digests: for each receiver, for all receivers, and their
// age. The newest are kept. A payload of more than 4 KiB is left out, so that all of them
// have 20 MiB at most.
const (
	maxDigested    = 1_000
	maxDigestedAll = 5_000
	digestedLife   = 24 * time.Hour
)

// DigestedEntry is an entry that was part of a digest, a message for several entries.
type DigestedEntry struct {
	// Entry has no Key and no Position.
	Entry
	// Digest is the idempotency key of the message.
	Digest string
	// Delivered is false if the message was given up.
	Delivered bool
	// EndedAt is the time at which the message was delivered or given up.
	EndedAt time.Time
}

// selectDigestedEntries selects the entries of a digest that are kept.
const selectDigestedEntries = `
	SELECT id, alarm, count, created_at, iif(length(payload) > 4096, x'', payload) FROM (
		SELECT id, alarm, count, created_at, coalesce((SELECT data FROM content WHERE content.id = entry.content), ` + payloadOfParts + `) AS payload
		FROM entry WHERE id IN (SELECT value FROM json_each(?))) ORDER BY id`

// payloadOfEntry is the payload of an entry joined with its content, or that of the newest part
// of a group's message.
const (
	payloadOfEntry = `coalesce(data, ` + payloadOfParts + `)`
	payloadOfParts = `(
	SELECT part.data FROM held JOIN content part ON part.id = held.content
	WHERE held.entry = entry.id ORDER BY held.due DESC, held.position DESC LIMIT 1), x''`
)

// digestedEntries reads the entries of a digest before their removal. They are written after it,
// when there is space even in a file that is full.
func (tx *tx) digestedEntries(ctx context.Context, a *Attempt, o *Outcome) (entries []DigestedEntry, err error) {
	rows, err := tx.query(ctx, selectDigestedEntries, jsonColumn{a.Entries})
	err = each(rows, err, func(rows *sql.Rows) error {
		d := DigestedEntry{Entry: Entry{Receiver: a.Receiver}, Digest: a.Key, Delivered: !o.GivenUp}
		err := rows.Scan(&d.ID, &d.Alarm, &d.Count, timestamp{&d.CreatedAt}, &d.Payload)
		entries = append(entries, d)
		return err
	})
	return entries, err
}

const (
	deleteDigestedOf = `
		DELETE FROM digested WHERE receiver = ?1
		AND id <= (SELECT id FROM digested WHERE receiver = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`
	deleteDigestedOld = `
		DELETE FROM digested WHERE ended_at <= max(?1,
		coalesce((SELECT ended_at FROM digested ORDER BY ended_at DESC LIMIT 1 OFFSET ?2), 0))`
)

// keepDigested stores entries of a digest, and deletes those beyond the limits.
func (tx *tx) keepDigested(ctx context.Context, entries []DigestedEntry, now time.Time) error {
	if len(entries) == 0 {
		return nil
	}
	for i := range entries {
		d := &entries[i]
		_, err := tx.exec(ctx, `
			INSERT INTO digested (id, receiver, alarm, count, created_at, payload, digest, delivered, ended_at)
			VALUES (?, ?, ?, ?, ?, ifnull(?, x''), ?, ?, ?)`,
			d.ID, d.Receiver, d.Alarm, d.Count, micros(d.CreatedAt), d.Payload, d.Digest, d.Delivered, micros(now))
		if err != nil {
			return err
		}
	}
	if _, err := tx.exec(ctx, deleteDigestedOf, entries[0].Receiver, maxDigested); err != nil {
		return err
	}
	_, err := tx.exec(ctx, deleteDigestedOld, micros(now.Add(-digestedLife)), maxDigestedAll)
	return err
}

// makeRoom deletes the entries of past digests, and reports whether there were any.
func (s *core) makeRoom(ctx context.Context) (made bool) {
	err := s.makeSpace(ctx, "delete past digests", func(ctx context.Context, tx *tx) error {
		n, err := tx.exec(ctx, `DELETE FROM digested`)
		made, tx.Freed = n > 0, true
		return err
	})
	return made && err == nil
}
