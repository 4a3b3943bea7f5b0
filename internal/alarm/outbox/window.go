package outbox

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
func (l *Store) Window(ctx context.Context, id string) ([]byte, error) {
	var state []byte
	err := l.readers.QueryRowContext(ctx, selectWindow, id).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return state, l.read("reading a window", err)
}

// HasGroup says whether anything is remembered under an ID, of Window or of
// Membership.
func (l *Store) HasGroup(ctx context.Context, id string) (known bool, err error) {
	err = l.readers.QueryRowContext(ctx, selectGroupExists, id).Scan(&known)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return known, l.read("looking for a group", err)
}

const selectGroupExists = `SELECT 1 FROM window WHERE id = ?1 UNION ALL SELECT 1 FROM grp WHERE id = ?1 LIMIT 1`

func (tx *tx) putWindows(ctx context.Context, windows []Window) error {
	for _, w := range windows {
		known, err := tx.exec(ctx, `UPDATE window SET until = ?, state = ? WHERE id = ?`, micros(w.Until), w.State, w.ID)
		if known == 0 && err == nil {
			_, err = tx.exec(ctx, `INSERT INTO window (id, alarm, until, state) VALUES (?, ?, ?, ?)`, w.ID, w.Alarm, micros(w.Until), w.State)
			tx.after(func(m *memory) { m.windows.add(w.Alarm, 1) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const deleteOldWindows = `DELETE FROM window WHERE id IN (SELECT id FROM window WHERE until < ?1 ORDER BY until LIMIT ?2) RETURNING alarm`

// expireWindows forgets windows that ended before a time, at most a chunk.
func (tx *tx) expireWindows(ctx context.Context, before time.Time) error {
	if before.IsZero() {
		return nil
	}
	gone := Counts{}
	rows, err := tx.query(ctx, deleteOldWindows, micros(before), chunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var alarm string
		err := rows.Scan(&alarm)
		gone[alarm]++
		return err
	})
	tx.after(func(m *memory) { m.windows.subtract(gone) })
	return err
}
