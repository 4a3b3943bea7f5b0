package outbox

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
)

// EventCount is the last known count of an Event.
type EventCount struct {
	UID   string
	Count int64
	// Position is where in the feed it had that count.
	Position uint64
}

const selectCounts = `SELECT uid, count, position FROM event_count`

// EachCount calls fn with every count, in no order, until it returns an error,
// which EachCount returns.
func (l *Store) EachCount(ctx context.Context, fn func(EventCount) error) error {
	rows, err := l.readers.QueryContext(ctx, selectCounts)
	return l.read("reading the counts", each(rows, err, func(rows *sql.Rows) error {
		var c EventCount
		if err := rows.Scan(uidColumn{&c.UID}, &c.Count, &c.Position); err != nil {
			return err
		}
		return fn(c)
	}))
}

func (tx *tx) putCounts(ctx context.Context, counts []EventCount) error {
	for _, c := range counts {
		_, err := tx.exec(ctx, `
			INSERT INTO event_count (uid, count, position) VALUES (?, ?, ?)
			ON CONFLICT (uid) DO UPDATE SET count = excluded.count, position = excluded.position`,
			packUID(c.UID), c.Count, c.Position)
		if err != nil {
			return err
		}
	}
	return nil
}

const deleteCount = `DELETE FROM event_count WHERE uid = ?`

func (tx *tx) forgetCounts(ctx context.Context, uids []string) error {
	for _, u := range uids {
		if _, err := tx.exec(ctx, deleteCount, packUID(u)); err != nil {
			return err
		}
	}
	return nil
}

// packUID returns the 16 bytes of a UUID, or the text of what is none. Only the
// form that the API server writes is packed: any other would come back changed.
func packUID(s string) any {
	u, err := uuid.Parse(s)
	if err != nil || u.String() != s {
		return s
	}
	return u[:]
}

// uid scans what packUID made.
type uidColumn struct{ *string }

func (u uidColumn) Scan(value any) error {
	switch v := value.(type) {
	case []byte:
		parsed, err := uuid.FromBytes(v)
		*u.string = parsed.String()
		return err
	default:
		*u.string = v.(string)
		return nil
	}
}
