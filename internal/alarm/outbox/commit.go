package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Batch is what one batch of Events changes.
type Batch struct {
	// Position is the position after the batch. Without a History, it is never before the
	// position of the last batch.
	Position uint64
	// Time is kept for the event source, with microseconds, in UTC.
	Time time.Time
	// History, if set, names a new history of positions. Commit then drops the delivered
	// offsets, which belong to the former history. It also lowers the positions of
	// pending entries to Position.
	History string
	// Entries are new messages. Their IDs are ignored.
	Entries []Entry
	// Counts replace the earlier counts of the same Events.
	Counts []EventCount
	// CountsKnown is true if the counts of all live Events are known after this batch.
	CountsKnown bool
	// Forget names Events whose counts are no longer needed.
	Forget []string
	// Windows replace the earlier windows of the same IDs.
	Windows []Window
	// Oldest and Newest are the times of the first and the last occurrence of the batch,
	// zero if there is none. Windows that ended before Oldest are removed.
	Oldest, Newest time.Time
}

// Commit stores a batch in one transaction. If it fails, nothing changes: with ErrBackwards
// for a position before the committed one, with ErrFull if there is no space. An entry is
// ignored if its receiver already has one with the same key. If the file is full, Commit
// removes entries of past digests and tries once more.
func (s *Store) Commit(ctx context.Context, batch Batch) error {
	err := s.commit(ctx, batch)
	if errors.Is(err, ErrFull) && s.makeRoom(ctx) {
		err = s.commit(ctx, batch)
	}
	return err
}

func (s *Store) commit(ctx context.Context, batch Batch) error {
	return s.write(ctx, "commit a batch", func(ctx context.Context, tx *tx) error {
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
	state, err := tx.state(ctx)
	if err != nil {
		return err
	}
	if batch.Position < state.Position && batch.History == "" {
		return fmt.Errorf("%w: %d is before %d", ErrBackwards, batch.Position, state.Position)
	}
	if batch.History != "" {
		state.History, state.Delivered = batch.History, DeliveredOffsets{}
		if err := tx.lowerPositions(ctx, batch.Position); err != nil {
			return err
		}
	}
	if state.Delivered.passedBy(batch.Position) {
		state.Delivered = DeliveredOffsets{}
	}
	state.Position, state.Time, state.CountsKnown = batch.Position, batch.Time, batch.CountsKnown
	if batch.Newest.After(state.Newest) {
		state.Newest = batch.Newest.UTC().Truncate(time.Microsecond)
	}
	return tx.setState(ctx, state)
}

// lowerPositions lowers the positions of pending entries to a limit. Otherwise, a
// receiver would seem to be ahead of the event source.
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
	// Position is the resourceVersion at which the Event had that count.
	Position uint64
}

const selectCounts = `SELECT uid, count, position FROM event_count`

// EachCount calls fn with every count, in no order. It stops at the first error of fn and
// returns it.
func (s *Store) EachCount(ctx context.Context, fn func(EventCount) error) error {
	rows, err := s.readers.QueryContext(ctx, selectCounts)
	return s.read("read the counts", each(rows, err, func(rows *sql.Rows) error {
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

// packUID returns a UUID as 16 bytes, and any other text unchanged. It packs only the
// form that the API server writes, because other forms would be read back differently.
func packUID(s string) any {
	u, err := uuid.Parse(s)
	if err != nil || u.String() != s {
		return s
	}
	return u[:]
}

// uidColumn scans a UID that packUID wrote.
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

// Window is the state of a threshold.
type Window struct {
	// ID identifies the window: 64 characters at most.
	ID string
	// Alarm is the alarm that owns the window.
	Alarm string
	// Until is the time after which the window can be removed: see Batch.Oldest.
	Until time.Time
	// State is opaque here.
	State []byte
}

const selectWindow = `SELECT state FROM window WHERE id = ?`

// Window returns the state of a window, or nil if there is none.
func (s *Store) Window(ctx context.Context, id string) ([]byte, error) {
	var state []byte
	err := s.readers.QueryRowContext(ctx, selectWindow, id).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return state, s.read("read a window", err)
}

// HasGroup reports whether a Window or a group of a Membership has the ID.
func (s *Store) HasGroup(ctx context.Context, id string) (known bool, err error) {
	err = s.readers.QueryRowContext(ctx, selectGroupExists, id).Scan(&known)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return known, s.read("look for a group", err)
}

const selectGroupExists = `SELECT 1 FROM window WHERE id = ?1 UNION ALL SELECT 1 FROM open_group WHERE id = ?1 LIMIT 1`

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

// expireWindows removes windows that ended before a time, one chunk at most.
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
