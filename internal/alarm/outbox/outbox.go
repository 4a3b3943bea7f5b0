package outbox

import (
	"context"
	"database/sql"
	"time"
)

const selectPending = `
	SELECT id, receiver, alarm, key, position, count, created_at, payload FROM entry
	WHERE receiver = ?1 AND id > max(?2, coalesce((SELECT last FROM attempt WHERE receiver = ?1), 0))
	ORDER BY id LIMIT ?3`

const selectOldest = `SELECT created_at FROM entry ORDER BY id LIMIT 1`

// Oldest returns since when the message waits that has waited longest, of all
// receivers; the zero time if none waits.
func (l *Store) Oldest(ctx context.Context) (since time.Time, err error) {
	rows, err := l.readers.QueryContext(ctx, selectOldest)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(timestamp{&since}) })
	return since, l.read("reading the oldest message", err)
}

// Pending returns the oldest entries of a receiver that are not frozen: at most
// limit of those whose ID is above after, oldest first.
func (l *Store) Pending(ctx context.Context, receiver string, after int64, limit int) ([]Entry, error) {
	var entries []Entry
	rows, err := l.readers.QueryContext(ctx, selectPending, receiver, after, limit)
	err = each(rows, err, func(rows *sql.Rows) error {
		var e Entry
		err := rows.Scan(&e.ID, &e.Receiver, &e.Alarm, &e.Key, &e.Position, &e.Count, timestamp{&e.CreatedAt}, &e.Payload)
		entries = append(entries, e)
		return err
	})
	return entries, l.read("reading pending entries", err)
}
