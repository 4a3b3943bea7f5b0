package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Window is what is remembered of the occurrences before, so that the next one can
// be judged.
type Window struct {
	// ID names it: at most 64 characters.
	ID string
	// Alarm is what it is accounted to.
	Alarm string
	// Until is when it may be forgotten: see Batch.Oldest.
	Until time.Time
	// State is what is remembered.
	State []byte
}

const selectWindow = `SELECT state FROM window WHERE id = ?`

// Window returns the state of a window, nil if there is none.
func (l *Ledger) Window(ctx context.Context, id string) ([]byte, error) {
	var state []byte
	err := l.readers.QueryRowContext(ctx, selectWindow, id).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return state, l.read("reading a window", err)
}

func (tx *tx) putWindows(ctx context.Context, windows []Window) error {
	for _, w := range windows {
		_, err := tx.exec(ctx, `
			INSERT INTO window (id, alarm, until, state) VALUES (?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET until = excluded.until, state = excluded.state`,
			w.ID, w.Alarm, micros(w.Until), w.State)
		if err != nil {
			return err
		}
	}
	return nil
}

const deleteOldWindows = `DELETE FROM window WHERE id IN (SELECT id FROM window WHERE until < ?1 ORDER BY until LIMIT ?2)`

// expireWindows forgets windows that ended before a time, at most a chunk.
func (tx *tx) expireWindows(ctx context.Context, before time.Time) error {
	if before.IsZero() {
		return nil
	}
	_, err := tx.exec(ctx, deleteOldWindows, micros(before), chunk)
	return err
}
