package outbox

import (
	"context"
	"database/sql"
)

// Held is what waits in a receiver's groups: the position of each Entry.Key.
type Held = map[string]uint64

// HeldKeys returns what waits in groups, or in messages of groups that are not
// settled, by receiver, and how much that is: at most one more than a limit.
func (l *Store) HeldKeys(ctx context.Context, limit int) (held map[string]Held, n int, err error) {
	held = map[string]Held{}
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
	return held, n, l.read("reading what waits", err)
}

// LowestHeld returns, of each receiver for which something waits in groups or their
// messages, the lowest position of it.
func (l *Store) LowestHeld(ctx context.Context) (map[string]uint64, error) {
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
