package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Attempt is a message that was, or is about to be, sent for the first time and
// is not settled. Its body and key never change.
type Attempt struct {
	ID       int64
	Receiver string
	// Key is the message's idempotency key.
	Key  string
	Body []byte
	// Last is the ID of the newest entry that the message stands for.
	Last int64
	// Entries and Count are how many entries and occurrences it stands for.
	Entries, Count int64
	// Oldest is when the oldest of its entries was created.
	Oldest time.Time
	// FirstTried is when it was frozen.
	FirstTried time.Time
	// Group is the group that the message is of; empty if it is of none.
	Group string
	// Reference is to be kept for the group's next message when this one is settled;
	// empty changes nothing.
	Reference string
	// GivenUp says, when it is settled, that it was not delivered.
	GivenUp bool
}

const selectAttempt = `
	SELECT id, receiver, key, body, last, entries, count, oldest, first_tried, grp FROM attempt
	WHERE receiver = ? AND NOT settled`

// Frozen returns the receiver's attempt, nil if it has none.
func (l *Store) Prepared(ctx context.Context, receiver string) (*Attempt, error) {
	var a Attempt
	err := l.readers.QueryRowContext(ctx, selectAttempt, receiver).Scan(&a.ID, &a.Receiver, &a.Key, &a.Body,
		&a.Last, &a.Entries, &a.Count, timestamp{&a.Oldest}, timestamp{&a.FirstTried}, &a.Group)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, l.read("reading the attempt", err)
	}
	return &a, nil
}

const selectPreparable = `
	SELECT count(*), coalesce(max(id), 0), coalesce(sum(count), 0), coalesce(min(created_at), 0) FROM entry
	WHERE receiver = ?1 AND id <= ?2`

// Freeze binds the receiver's entries up to the one with the ID last to a
// message, before it is first sent. It fails with ErrFrozen while another
// message of the receiver is not settled, and with ErrNothingPending if there is
// no such entry.
func (l *Store) Prepare(ctx context.Context, receiver string, last int64, key string, body []byte) (*Attempt, error) {
	a := Attempt{Receiver: receiver, Key: key, Body: body, FirstTried: l.clock.Now().UTC().Truncate(time.Microsecond)}
	err := l.writeLazily(ctx, "freezing a message", func(ctx context.Context, tx *tx) error {
		row := tx.row(ctx, selectPreparable, receiver, last)
		if err := row.Scan(&a.Entries, &a.Last, &a.Count, timestamp{&a.Oldest}); err != nil {
			return err
		}
		if a.Entries == 0 {
			return ErrNothingPending
		}
		if a.Entries == 1 { // a digest is of no group
			if err := tx.row(ctx, `SELECT grp FROM entry WHERE id = ?`, a.Last).Scan(&a.Group); err != nil {
				return err
			}
		}
		return tx.insertAttempt(ctx, &a)
	})
	if err != nil {
		return nil, err
	}
	return &a, nil
}

func (tx *tx) insertAttempt(ctx context.Context, a *Attempt) error {
	err := tx.row(ctx, `
		INSERT INTO attempt (receiver, key, body, last, entries, count, oldest, first_tried, grp) VALUES (?, ?, ifnull(?, x''), ?, ?, ?, ?, ?, ?)
		ON CONFLICT (receiver) DO NOTHING RETURNING id`,
		a.Receiver, a.Key, a.Body, a.Last, a.Entries, a.Count, micros(a.Oldest), micros(a.FirstTried), a.Group).Scan(&a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnacknowledged
	}
	return err
}

// Settle removes an attempt that was delivered or given up, with its entries,
// and returns what it stood for. Of a digest, one that stood for several entries, the
// newest are kept to be looked up: see Look. It is settled once the first of its entries are
// removed: a crash, or an error, before the last are leaves them to the next
// Settle or Open, and nothing to send. Of an attempt that is gone already it
// removes nothing.
func (l *Store) Acknowledge(ctx context.Context, a *Attempt) (Counts, error) {
	if a.Entries <= 1 {
		return l.acknowledge(ctx, a, time.Time{})
	}
	tally, err := l.acknowledge(ctx, a, l.clock.Now())
	if errors.Is(err, ErrFull) { // what is only to be looked up must not stand in the way
		var rest Counts
		rest, err = l.acknowledge(ctx, a, time.Time{})
		tally.add(rest)
	}
	return tally, err
}

// settle keeps what the message stood for under the time, if there is one.
func (l *Store) acknowledge(ctx context.Context, a *Attempt, keep time.Time) (Counts, error) {
	return l.steps(ctx, "settling a message", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		return tx.acknowledge(ctx, a, keep)
	})
}

// Values of attempt.settled.
const (
	acknowledgedDelivered = 1
	acknowledgedGivenUp   = 2
)

func (tx *tx) acknowledge(ctx context.Context, a *Attempt, keep time.Time) (tally Counts, done bool, err error) {
	settled := acknowledgedDelivered
	if a.GivenUp {
		settled = acknowledgedGivenUp
	}
	known, err := tx.exec(ctx, `UPDATE attempt SET settled = ? WHERE id = ?`, settled, a.ID)
	if known == 0 || err != nil {
		return nil, true, err
	}
	if a.Reference != "" {
		if _, err := tx.exec(ctx, `UPDATE grp SET reference = ? WHERE receiver = ? AND id = ?`, a.Reference, a.Receiver, a.Group); err != nil {
			return nil, false, err
		}
	}
	var told []DigestedEntry
	if !keep.IsZero() {
		if told, err = tx.digestedEntries(ctx, a); err != nil {
			return nil, false, err
		}
	}
	tally, done, err = tx.remove(ctx, a.Receiver, byID, uint64(a.Last))
	if err == nil {
		err = tx.keepDigested(ctx, told, keep)
	}
	if !done || err != nil {
		return tally, false, err
	}
	_, err = tx.exec(ctx, `DELETE FROM attempt WHERE id = ?`, a.ID)
	return tally, true, err
}

const selectReference = `SELECT reference FROM grp WHERE receiver = ?1 AND id = ?2`

// Reference returns what was kept when the group's last message was settled, be it of
// the group of the same name that was over before this one began; empty if nothing was,
// or the group was forgotten.
func (l *Store) Reference(ctx context.Context, receiver, group string) (reference string, err error) {
	rows, err := l.readers.QueryContext(ctx, selectReference, receiver, group)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(&reference) })
	return reference, l.read("reading a group's reference", err)
}

const selectAcknowledged = `SELECT id, receiver, key, last, entries, settled = 2 FROM attempt WHERE settled`

// settleRest removes what a crash has left of settled attempts.
func (l *Store) acknowledgeRest(ctx context.Context) error {
	var rest []Attempt
	rows, err := l.readers.QueryContext(ctx, selectAcknowledged)
	err = each(rows, err, func(rows *sql.Rows) error {
		var a Attempt
		err := rows.Scan(&a.ID, &a.Receiver, &a.Key, &a.Last, &a.Entries, &a.GivenUp)
		rest = append(rest, a)
		return err
	})
	for i := 0; i < len(rest) && err == nil; i++ {
		_, err = l.Acknowledge(ctx, &rest[i])
	}
	return err
}
