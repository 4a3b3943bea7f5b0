package ledger

import (
	"context"
	"database/sql"
)

const selectPending = `
	SELECT id, receiver, alarm, key, position, count, created_at, payload FROM entry
	WHERE receiver = ?1 AND id > max(?2, coalesce((SELECT last FROM attempt WHERE receiver = ?1), 0))
	ORDER BY id LIMIT ?3`

// Pending returns the oldest entries of a receiver that are not frozen: at most
// limit of those whose ID is above after, oldest first.
func (l *Ledger) Pending(ctx context.Context, receiver string, after int64, limit int) ([]Entry, error) {
	var entries []Entry
	rows, err := l.readers.QueryContext(ctx, selectPending, receiver, after, limit)
	err = each(rows, err, func(rows *sql.Rows) error {
		var e Entry
		err := rows.Scan(&e.ID, &e.Receiver, &e.Alarm, &e.Key, &e.Position, &e.Count, stamp{&e.CreatedAt}, &e.Payload)
		entries = append(entries, e)
		return err
	})
	return entries, l.read("reading pending entries", err)
}
