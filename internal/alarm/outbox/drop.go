package outbox

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"
)

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
