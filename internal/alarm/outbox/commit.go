package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Batch is what was made of a stretch of the feed.
type Batch struct {
	// Position is the end of the stretch. It never lies before the last one's,
	// unless there is a History.
	Position uint64
	// Time is kept for the feed, to the microsecond, and returned in UTC.
	Time time.Time
	// History, if not empty, names the history that positions are of from here on:
	// floors, which are of the former one, are dropped, and what is still to be sent
	// is as if it had happened at Position at the latest.
	History string
	// Entries to be sent; their IDs are ignored.
	Entries []Entry
	// Counts are stored in place of earlier ones of the same Events.
	Counts []EventCount
	// Counted says that with these the counts of all live Events are known.
	CountsKnown bool
	// Forget names Events whose counts are no longer needed.
	Forget []string
	// Windows are stored in place of earlier ones of the same IDs.
	Windows []Window
	// Oldest and Newest are when the first and the last of what the batch was made
	// of happened; the zero time if there was nothing. Windows that ended before
	// Oldest are forgotten.
	Oldest, Newest time.Time
}

// Commit stores a batch whole: entries, counts, windows and the position. On an error
// nothing is changed: ErrBackwards if it lies before what was committed, ErrFull
// if there is no space, also without what is kept of digests.
func (l *Store) Commit(ctx context.Context, batch Batch) error {
	err := l.commit(ctx, batch)
	if errors.Is(err, ErrFull) && l.makeRoom(ctx) {
		err = l.commit(ctx, batch)
	}
	return err
}

func (l *Store) commit(ctx context.Context, batch Batch) error {
	return l.write(ctx, "committing a batch", func(ctx context.Context, tx *tx) error {
		if err := tx.advance(ctx, &batch); err != nil {
			return err
		}
		for i := range batch.Entries {
			if err := tx.insert(ctx, &batch.Entries[i]); err != nil {
				return err
			}
		}
		if err := tx.putCounts(ctx, batch.Counts); err != nil {
			return err
		}
		if err := tx.putWindows(ctx, batch.Windows); err != nil {
			return err
		}
		if err := tx.expireWindows(ctx, batch.Oldest); err != nil {
			return err
		}
		if err := tx.forgetGroups(ctx, batch.Oldest); err != nil {
			return err
		}
		return tx.forgetCounts(ctx, batch.Forget)
	})
}

func (tx *tx) advance(ctx context.Context, batch *Batch) error {
	s, err := tx.state(ctx)
	if err != nil {
		return err
	}
	if batch.Position < s.Position && batch.History == "" {
		return fmt.Errorf("%w: %d is before %d", ErrBackwards, batch.Position, s.Position)
	}
	if batch.History != "" {
		s.History, s.Delivered = batch.History, DeliveredOffsets{}
		if err := tx.lowerPositions(ctx, batch.Position); err != nil {
			return err
		}
	}
	if s.Delivered.passedBy(batch.Position) {
		s.Delivered = DeliveredOffsets{}
	}
	s.Position, s.Time, s.CountsKnown = batch.Position, batch.Time, batch.CountsKnown
	if batch.Newest.After(s.Newest) {
		s.Newest = batch.Newest.UTC().Truncate(time.Microsecond)
	}
	return tx.setState(ctx, s)
}

// lowerPositions brings what is still to be sent and lies beyond a position to it: a
// receiver must not seem to be ahead of the feed.
func (tx *tx) lowerPositions(ctx context.Context, position uint64) error {
	for _, table := range []string{"entry", "held"} {
		if _, err := tx.exec(ctx, `UPDATE `+table+` SET position = ?1 WHERE position > ?1`, position); err != nil {
			return err
		}
	}
	tx.after(func(m *memory) {
		for receiver, b := range m.backlogs {
			b.Lowest = min(b.Lowest, position)
			m.backlogs[receiver] = b
		}
	})
	return nil
}

func (tx *tx) insert(ctx context.Context, e *Entry) error {
	if e.Member != nil {
		return tx.join(ctx, e)
	}
	inserted, err := tx.exec(ctx, `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, payload) VALUES (?, ?, ?, ?, ?, ?, ifnull(?, x''))
		ON CONFLICT (receiver, key) DO NOTHING`,
		e.Receiver, e.Alarm, e.Key, e.Position, e.Count, micros(e.CreatedAt), e.Payload)
	if inserted > 0 {
		tx.after(func(m *memory) { m.added(e.Receiver, e.Position) })
	}
	return err
}

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
