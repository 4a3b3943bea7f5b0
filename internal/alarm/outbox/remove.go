package outbox

import (
	"context"
	"database/sql"
	"errors"
)

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
