package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Entry is something that one receiver is to be told.
type Entry struct {
	// ID is set by the ledger; entries that were committed later have higher ones.
	ID int64
	// Receiver is who is to be told.
	Receiver string
	// Alarm is what the count is accounted to when the entry leaves the ledger.
	Alarm string
	// Key makes a replay harmless: while an entry of the same receiver and key is
	// in the ledger, another is ignored.
	Key string
	// Position is where in the feed it happened.
	Position uint64
	// Count is how many occurrences the entry stands for.
	Count int64
	// CreatedAt is kept to the microsecond and returned in UTC.
	CreatedAt time.Time
	// Payload is what the message is made of.
	Payload []byte
	// Member makes the entry wait for others of its group: what becomes an entry
	// then is made by Release. Nil is none.
	Member *Membership
}

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
