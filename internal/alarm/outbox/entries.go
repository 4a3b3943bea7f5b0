package outbox

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"
)

// Entry is a message for one receiver.
type Entry struct {
	// ID is set by Commit. Entries of later commits have higher IDs.
	ID int64
	// Receiver is the key of the receiver.
	Receiver string
	// Alarm is the alarm that Counts attribute the entry to.
	Alarm string
	// Key makes a replay harmless: an entry is ignored while the receiver has another one
	// with the same key.
	Key string
	// Position is the resourceVersion of the occurrence.
	Position uint64
	// Count is the number of occurrences in the entry.
	Count int64
	// CreatedAt is stored with microseconds and returned in UTC.
	CreatedAt time.Time
	// Payload is the content of the message.
	Payload []byte
	// Member makes the entry wait in a group until Release creates the message. Nil is no
	// group.
	Member *Membership
}

const selectPending = `
	SELECT id, receiver, alarm, key, position, count, created_at, payload FROM entry
	WHERE receiver = ?1 AND id > max(?2, coalesce((SELECT last FROM attempt WHERE receiver = ?1), 0))
	ORDER BY id LIMIT ?3`

const selectOldest = `SELECT created_at FROM entry ORDER BY id LIMIT 1`

// Oldest returns when the oldest entry of all receivers was created, zero if there is
// none.
func (s *Store) Oldest(ctx context.Context) (since time.Time, err error) {
	rows, err := s.readers.QueryContext(ctx, selectOldest)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(timestamp{&since}) })
	return since, s.read("read the oldest entry", err)
}

// Pending returns the oldest entries of a receiver that are not prepared: at most limit
// entries with an ID above after, oldest first.
func (s *Store) Pending(ctx context.Context, receiver string, after int64, limit int) ([]Entry, error) {
	var entries []Entry
	rows, err := s.readers.QueryContext(ctx, selectPending, receiver, after, limit)
	err = each(rows, err, func(rows *sql.Rows) error {
		var e Entry
		err := rows.Scan(&e.ID, &e.Receiver, &e.Alarm, &e.Key, &e.Position, &e.Count, timestamp{&e.CreatedAt}, &e.Payload)
		entries = append(entries, e)
		return err
	})
	return entries, s.read("read pending entries", err)
}

// selection selects entries of a receiver (?1) whose column is at most a bound (?2). also
// is a further condition.
type selection struct{ column, also string }

var (
	byID       = selection{column: "id"}
	byPosition = selection{column: "position", also: " AND group_id = ''"} // DropHeld removes messages of groups
	unprepared = selection{column: "id", also: " AND id > coalesce((SELECT last FROM attempt WHERE receiver = ?1), 0)"}
)

func (s selection) where() string {
	return " FROM entry WHERE receiver = ?1 AND " + s.column + " <= ?2" + s.also
}

func deleteEntries(s selection) string { return "DELETE" + s.where() }

// deleteParts deletes the parts of the selected messages of groups.
func deleteParts(s selection) string {
	return "DELETE FROM held WHERE entry IN (SELECT id" + s.where() + " AND group_id <> '')"
}

func selectAlarmCounts(s selection) string {
	return "SELECT alarm, sum(count)" + s.where() + " GROUP BY alarm"
}

// nth returns the query for the column of the entry at an offset (?3).
func (s selection) nth() string {
	return "SELECT " + s.column + s.where() + " ORDER BY " + s.column + " LIMIT 1 OFFSET ?3"
}

// chunk is about the number of entries that one transaction removes. It limits how long
// other writes wait, and how far the WAL grows. Removing 1,000 entries takes about as
// long as committing them.
const chunk = 1_000

// step is a part of a removal, in a transaction of its own.
type step func(ctx context.Context, tx *tx) (removed Counts, done bool, err error)

// steps runs step until it is done and returns the sum of the removed counts. It does not
// wait for the disk, so that the disk does not limit the speed of delivery. After a loss
// of power, some messages are sent twice.
func (s *Store) steps(ctx context.Context, what string, step step) (Counts, error) {
	counts := Counts{}
	for done := false; !done; {
		var removed Counts
		err := s.writeLazily(ctx, what, func(ctx context.Context, tx *tx) (err error) {
			removed, done, err = step(ctx, tx)
			return err
		})
		if err != nil {
			return counts, err
		}
		counts.add(removed)
	}
	return counts, nil
}

// remove deletes a chunk of the selected entries. It returns their counts, and whether
// they were the last.
func (tx *tx) remove(ctx context.Context, receiver string, which selection, upTo uint64) (counts Counts, done bool, err error) {
	err = tx.row(ctx, which.nth(), receiver, upTo, chunk-1).Scan(&upTo)
	if errors.Is(err, sql.ErrNoRows) {
		done, err = true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if counts, err = tx.alarmCounts(ctx, receiver, which, upTo); err != nil {
		return nil, false, err
	}
	return counts, done, tx.delete(ctx, receiver, which, upTo)
}

func (tx *tx) delete(ctx context.Context, receiver string, which selection, upTo uint64) error {
	parts, err := tx.exec(ctx, deleteParts(which), receiver, upTo)
	if err != nil {
		return err
	}
	deleted, err := tx.exec(ctx, deleteEntries(which), receiver, upTo)
	if err != nil {
		return err
	}
	var lowest sql.Null[uint64]
	if err := tx.row(ctx, selectLowest, receiver).Scan(&lowest); err != nil {
		return err
	}
	tx.freed = tx.freed || deleted > 0
	tx.after(func(m *memory) {
		m.removed(receiver, deleted, lowest.V)
		m.unheld(receiver, parts)
	})
	return nil
}

const selectLowest = `SELECT min(position) FROM entry WHERE receiver = ?`

func (tx *tx) alarmCounts(ctx context.Context, receiver string, which selection, upTo uint64) (Counts, error) {
	counts := Counts{}
	rows, err := tx.query(ctx, selectAlarmCounts(which), receiver, upTo)
	return counts, counts.scan(rows, err)
}

// scan reads the rows of a query that returns a number for each alarm.
func (c Counts) scan(rows *sql.Rows, err error) error {
	return each(rows, err, func(rows *sql.Rows) error {
		var alarm string
		var n int64
		err := rows.Scan(&alarm, &n)
		c[alarm] = n
		return err
	})
}

// Counts are the numbers of occurrences that left the outbox, by Entry.Alarm. Counts
// returned with an error contain what was removed before the error.
type Counts map[string]int64

func (c Counts) add(other Counts) {
	for alarm, count := range other {
		c[alarm] += count
	}
}

// maxID is the bound that selects all entries. SQLite's integers are signed.
const maxID uint64 = math.MaxInt64

// DropReceiver removes all entries, prepared messages, groups and past digests of a
// receiver.
func (s *Store) DropReceiver(ctx context.Context, receiver string) (Counts, error) {
	return s.steps(ctx, "drop a receiver", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		for _, table := range []string{"attempt", "digested"} {
			if _, err := tx.exec(ctx, `DELETE FROM `+table+` WHERE receiver = ?`, receiver); err != nil {
				return nil, false, err
			}
		}
		held, err := tx.dropHeld(ctx, receiver)
		if err != nil {
			return nil, false, err
		}
		counts, done, err := tx.remove(ctx, receiver, byID, maxID)
		held.add(counts)
		return held, done, err
	})
}

// dropHeld removes the groups of a receiver and the occurrences that wait in them.
func (tx *tx) dropHeld(ctx context.Context, receiver string) (Counts, error) {
	counts := Counts{}
	rows, err := tx.query(ctx, `SELECT alarm, sum(count) FROM held WHERE receiver = ? AND entry IS NULL GROUP BY alarm`, receiver)
	if err := counts.scan(rows, err); err != nil {
		return nil, err
	}
	gone := Counts{}
	rows, err = tx.query(ctx, `SELECT alarm, count(*) FROM open_group WHERE receiver = ? GROUP BY alarm`, receiver)
	if err := gone.scan(rows, err); err != nil {
		return nil, err
	}
	n, err := tx.exec(ctx, `DELETE FROM held WHERE receiver = ? AND entry IS NULL`, receiver)
	if err != nil {
		return nil, err
	}
	tx.after(func(m *memory) {
		m.unheld(receiver, n)
		m.groups.subtract(gone)
	})
	_, err = tx.exec(ctx, `DELETE FROM open_group WHERE receiver = ?`, receiver)
	return counts, err
}

// DropOlderThan removes the oldest pending entries of a receiver, up to the first that
// was created at t or later. A prepared message stays until [Store.Acknowledge].
func (s *Store) DropOlderThan(ctx context.Context, receiver string, t time.Time) (Counts, error) {
	return s.steps(ctx, "drop old entries", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		last, err := tx.lastBefore(ctx, receiver, t)
		if last == 0 || err != nil {
			return nil, true, err
		}
		return tx.remove(ctx, receiver, unprepared, last)
	})
}

const selectOld = `
	SELECT id, created_at FROM entry
	WHERE receiver = ?1 AND id > coalesce((SELECT last FROM attempt WHERE receiver = ?1), 0)
	ORDER BY id LIMIT ?2`

// lastBefore returns the ID of the last entry before the first one that was created at t
// or later. It reads one entry more than a chunk, and returns 0 if there is no such
// entry.
func (tx *tx) lastBefore(ctx context.Context, receiver string, t time.Time) (last uint64, err error) {
	rows, err := tx.query(ctx, selectOld, receiver, chunk+1)
	err = each(rows, err, func(rows *sql.Rows) error {
		var id uint64
		var created time.Time
		if err := rows.Scan(&id, timestamp{&created}); err != nil {
			return err
		}
		if !created.Before(t) {
			return errStop
		}
		last = id
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return last, err
}

var errStop = errors.New("stop")

// DropAtOrBelow removes the entries that another leader handled: at or below the position
// of their receiver in positions, else at or below position. If a prepared message loses
// an entry, its other entries are pending again.
func (s *Store) DropAtOrBelow(ctx context.Context, position uint64, positions map[string]uint64) (Counts, error) {
	counts := Counts{}
	for receiver := range s.Snapshot().Backlogs {
		upTo, ok := positions[receiver]
		if !ok {
			upTo = position
		}
		removed, err := s.steps(ctx, "drop delivered entries", func(ctx context.Context, tx *tx) (Counts, bool, error) {
			removed, done, err := tx.remove(ctx, receiver, byPosition, upTo)
			if err != nil {
				return nil, false, err
			}
			return removed, done, tx.dropBrokenAttempt(ctx, receiver)
		})
		counts.add(removed)
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// dropBrokenAttempt removes the attempt of a receiver if one of its entries is missing.
func (tx *tx) dropBrokenAttempt(ctx context.Context, receiver string) error {
	_, err := tx.exec(ctx, `
		DELETE FROM attempt WHERE receiver = ?1
		AND entries <> (SELECT count(*) FROM entry WHERE receiver = ?1 AND id <= attempt.last)`, receiver)
	return err
}
