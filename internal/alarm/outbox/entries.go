package outbox

import (
	"context"
	"database/sql"
	"errors"
	"math"
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

// selection says which entries of a receiver (?1) are meant: those whose column
// is at most a bound (?2), and what else must hold.
type selection struct{ column, also string }

var (
	byID       = selection{column: "id"}
	byPosition = selection{column: "position", also: " AND grp = ''"} // those of groups go by their parts
	unprepared = selection{column: "id", also: " AND id > coalesce((SELECT last FROM attempt WHERE receiver = ?1), 0)"}
)

func (s selection) where() string {
	return " FROM entry WHERE receiver = ?1 AND " + s.column + " <= ?2" + s.also
}

func deleteEntries(s selection) string { return "DELETE" + s.where() }

// deleteParts removes what the entries are made of that are messages of groups.
func deleteParts(s selection) string {
	return "DELETE FROM held WHERE entry IN (SELECT id" + s.where() + " AND grp <> '')"
}

func selectAlarmCounts(s selection) string {
	return "SELECT alarm, sum(count)" + s.where() + " GROUP BY alarm"
}

// nth is the query for the column of the entry at an offset (?3).
func (s selection) nth() string {
	return "SELECT " + s.column + s.where() + " ORDER BY " + s.column + " LIMIT 1 OFFSET ?3"
}

// chunk is how many entries one transaction removes, more or less: it bounds how
// long everyone else waits, and how far the WAL grows. Removing 1,000 entries
// takes about as long as committing them.
const chunk = 1_000

// step is a part of a removal, in a transaction of its own.
type step func(ctx context.Context, tx *tx) (removed Counts, done bool, err error)

// steps runs step until it is done and returns all that was removed. It does not
// wait for the disk: what a loss of power brings back is sent, or given up, once
// more, which is the lesser evil than a disk that sets the pace of delivery.
func (l *Store) steps(ctx context.Context, what string, step step) (Counts, error) {
	tally := Counts{}
	for done := false; !done; {
		var removed Counts
		err := l.writeLazily(ctx, what, func(ctx context.Context, tx *tx) (err error) {
			removed, done, err = step(ctx, tx)
			return err
		})
		if err != nil {
			return tally, err
		}
		tally.add(removed)
	}
	return tally, nil
}

// remove deletes a chunk of the entries selected, says what they stood for, and
// whether they were the last ones.
func (tx *tx) remove(ctx context.Context, receiver string, which selection, upTo uint64) (tally Counts, done bool, err error) {
	err = tx.row(ctx, which.nth(), receiver, upTo, chunk-1).Scan(&upTo)
	if errors.Is(err, sql.ErrNoRows) {
		done, err = true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if tally, err = tx.alarmCounts(ctx, receiver, which, upTo); err != nil {
		return nil, false, err
	}
	return tally, done, tx.delete(ctx, receiver, which, upTo)
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
	tally := Counts{}
	rows, err := tx.query(ctx, selectAlarmCounts(which), receiver, upTo)
	return tally, tally.scan(rows, err)
}

// scan reads what a query returns by alarm.
func (t Counts) scan(rows *sql.Rows, err error) error {
	return each(rows, err, func(rows *sql.Rows) error {
		var alarm string
		var count int64
		err := rows.Scan(&alarm, &count)
		t[alarm] = count
		return err
	})
}

// Tally is how many occurrences left the ledger, by Entry.Alarm. One that comes
// with an error is what had left it by then.
type Counts map[string]int64

func (t Counts) add(other Counts) {
	for alarm, count := range other {
		t[alarm] += count
	}
}

// maxID is the bound that means all; SQLite's integers are signed.
const maxID uint64 = math.MaxInt64

// DropReceiver removes all that the receiver has before it, frozen or not, and what is
// known of its digests.
func (l *Store) DropReceiver(ctx context.Context, receiver string) (Counts, error) {
	return l.steps(ctx, "dropping a receiver", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		for _, table := range []string{"attempt", "digested"} {
			if _, err := tx.exec(ctx, `DELETE FROM `+table+` WHERE receiver = ?`, receiver); err != nil {
				return nil, false, err
			}
		}
		held, err := tx.dropHeld(ctx, receiver)
		if err != nil {
			return nil, false, err
		}
		tally, done, err := tx.remove(ctx, receiver, byID, maxID)
		held.add(tally)
		return held, done, err
	})
}

// dropHeld removes what waits in the receiver's groups, and the groups.
func (tx *tx) dropHeld(ctx context.Context, receiver string) (Counts, error) {
	tally := Counts{}
	rows, err := tx.query(ctx, `SELECT alarm, sum(count) FROM held WHERE receiver = ? AND entry IS NULL GROUP BY alarm`, receiver)
	if err := tally.scan(rows, err); err != nil {
		return nil, err
	}
	gone := Counts{}
	rows, err = tx.query(ctx, `SELECT alarm, count(*) FROM grp WHERE receiver = ? GROUP BY alarm`, receiver)
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
	_, err = tx.exec(ctx, `DELETE FROM grp WHERE receiver = ?`, receiver)
	return tally, err
}

// DropOlderThan removes the receiver's oldest entries up to the first that was
// created at t or later. What is frozen stays: it leaves by [Ledger.Settle].
func (l *Store) DropOlderThan(ctx context.Context, receiver string, t time.Time) (Counts, error) {
	return l.steps(ctx, "dropping old entries", func(ctx context.Context, tx *tx) (Counts, bool, error) {
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

// lastBefore returns the ID of the last of the oldest entries, at most a chunk
// and one more, that were all created before t; 0 if there is none.
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

// DropAtOrBelow removes what another leader has dealt with: of each receiver in
// positions the entries at or below its position there, of every other those at
// or below position. An attempt of which a part is removed is dissolved: what
// remains of it is pending again.
func (l *Store) DropAtOrBelow(ctx context.Context, position uint64, positions map[string]uint64) (Counts, error) {
	tally := Counts{}
	for receiver := range l.Snapshot().Backlogs {
		upTo, ok := positions[receiver]
		if !ok {
			upTo = position
		}
		removed, err := l.steps(ctx, "dropping what is done", func(ctx context.Context, tx *tx) (Counts, bool, error) {
			removed, done, err := tx.remove(ctx, receiver, byPosition, upTo)
			if err != nil {
				return nil, false, err
			}
			return removed, done, tx.dropBrokenAttempt(ctx, receiver)
		})
		tally.add(removed)
		if err != nil {
			return tally, err
		}
	}
	return tally, nil
}

// dissolve removes the receiver's attempt unless all its entries are there.
func (tx *tx) dropBrokenAttempt(ctx context.Context, receiver string) error {
	_, err := tx.exec(ctx, `
		DELETE FROM attempt WHERE receiver = ?1
		AND entries <> (SELECT count(*) FROM entry WHERE receiver = ?1 AND id <= attempt.last)`, receiver)
	return err
}
