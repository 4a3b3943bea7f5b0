package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Attempt is a prepared message that is not acknowledged. Its body and key never change.
type Attempt struct {
	ID       int64
	Receiver string
	// Key is the idempotency key of the message.
	Key  string
	Body []byte
	// Last is the ID of the newest entry of the message.
	Last int64
	// Entries and Count are the numbers of entries and occurrences of the message.
	Entries, Count int64
	// Oldest is the time at which the oldest entry was created.
	Oldest time.Time
	// FirstTried is the time at which the message was prepared.
	FirstTried time.Time
	// Group is the group of the message, empty if it has none.
	Group string
	// Reference, if set, is stored by Acknowledge for the next message of the group.
	Reference string
	// GivenUp makes Acknowledge record that the message was not delivered.
	GivenUp bool
}

const selectAttempt = `
	SELECT id, receiver, key, body, last, entries, count, oldest, first_tried, group_id FROM attempt
	WHERE receiver = ? AND NOT acknowledged`

// Prepared loads the prepared message of a receiver. It returns nil if there is none.
func (s *Store) Prepared(ctx context.Context, receiver string) (*Attempt, error) {
	var a Attempt
	err := s.readers.QueryRowContext(ctx, selectAttempt, receiver).Scan(&a.ID, &a.Receiver, &a.Key, &a.Body,
		&a.Last, &a.Entries, &a.Count, timestamp{&a.Oldest}, timestamp{&a.FirstTried}, &a.Group)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.read("read the prepared message", err)
	}
	return &a, nil
}

const selectPreparable = `
	SELECT count(*), coalesce(max(id), 0), coalesce(sum(count), 0), coalesce(min(created_at), 0) FROM entry
	WHERE receiver = ?1 AND id <= ?2`

// Prepare binds the entries of a receiver up to the ID last to a message, before its
// first attempt. It fails with ErrUnacknowledged if the receiver has another prepared
// message, and with ErrNothingPending if there is no such entry.
func (s *Store) Prepare(ctx context.Context, receiver string, last int64, key string, body []byte) (*Attempt, error) {
	a := Attempt{Receiver: receiver, Key: key, Body: body, FirstTried: s.clock.Now().UTC().Truncate(time.Microsecond)}
	err := s.writeLazily(ctx, "prepare a message", func(ctx context.Context, tx *tx) error {
		row := tx.row(ctx, selectPreparable, receiver, last)
		if err := row.Scan(&a.Entries, &a.Last, &a.Count, timestamp{&a.Oldest}); err != nil {
			return err
		}
		if a.Entries == 0 {
			return ErrNothingPending
		}
		if a.Entries == 1 { // a digest has no group
			if err := tx.row(ctx, `SELECT group_id FROM entry WHERE id = ?`, a.Last).Scan(&a.Group); err != nil {
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
		INSERT INTO attempt (receiver, key, body, last, entries, count, oldest, first_tried, group_id) VALUES (?, ?, ifnull(?, x''), ?, ?, ?, ?, ?, ?)
		ON CONFLICT (receiver) DO NOTHING RETURNING id`,
		a.Receiver, a.Key, a.Body, a.Last, a.Entries, a.Count, micros(a.Oldest), micros(a.FirstTried), a.Group).Scan(&a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnacknowledged
	}
	return err
}

// Acknowledge removes an attempt that was delivered or given up, with its entries, and
// returns their counts. It keeps the newest entries of a digest for Inspect.
//
// After the first chunk of entries is removed, the message is never sent again. If a
// crash or an error interrupts the removal, the next Acknowledge or Open continues it. If
// the attempt does not exist any more, Acknowledge removes nothing.
func (s *Store) Acknowledge(ctx context.Context, a *Attempt) (Counts, error) {
	if a.Entries <= 1 {
		return s.acknowledge(ctx, a, time.Time{})
	}
	counts, err := s.acknowledge(ctx, a, s.clock.Now())
	if errors.Is(err, ErrFull) { // the entries of past digests are optional
		var rest Counts
		rest, err = s.acknowledge(ctx, a, time.Time{})
		counts.add(rest)
	}
	return counts, err
}

// acknowledge keeps the entries of a digest under the time endedAt, unless it is zero.
func (s *Store) acknowledge(ctx context.Context, a *Attempt, endedAt time.Time) (Counts, error) {
	return s.steps(ctx, "acknowledge a message", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		return tx.acknowledge(ctx, a, endedAt)
	})
}

// Values of attempt.acknowledged.
const (
	acknowledgedDelivered = 1
	acknowledgedGivenUp   = 2
)

func (tx *tx) acknowledge(ctx context.Context, a *Attempt, endedAt time.Time) (counts Counts, done bool, err error) {
	state := acknowledgedDelivered
	if a.GivenUp {
		state = acknowledgedGivenUp
	}
	found, err := tx.exec(ctx, `UPDATE attempt SET acknowledged = ? WHERE id = ?`, state, a.ID)
	if found == 0 || err != nil {
		return nil, true, err
	}
	if a.Reference != "" {
		if _, err := tx.exec(ctx, `UPDATE open_group SET reference = ? WHERE receiver = ? AND id = ?`, a.Reference, a.Receiver, a.Group); err != nil {
			return nil, false, err
		}
	}
	var kept []DigestedEntry
	if !endedAt.IsZero() {
		if kept, err = tx.digestedEntries(ctx, a); err != nil {
			return nil, false, err
		}
	}
	counts, done, err = tx.remove(ctx, a.Receiver, byID, uint64(a.Last))
	if err == nil {
		err = tx.keepDigested(ctx, kept, endedAt)
	}
	if !done || err != nil {
		return counts, false, err
	}
	_, err = tx.exec(ctx, `DELETE FROM attempt WHERE id = ?`, a.ID)
	return counts, true, err
}

const selectReference = `SELECT reference FROM open_group WHERE receiver = ?1 AND id = ?2`

// Reference returns the reference that was stored with the last message of a group. The
// group can have ended and begun again since then. It is empty if there is none, or if
// the group was removed.
func (s *Store) Reference(ctx context.Context, receiver, group string) (reference string, err error) {
	rows, err := s.readers.QueryContext(ctx, selectReference, receiver, group)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(&reference) })
	return reference, s.read("read the reference of a group", err)
}

const selectAcknowledged = `SELECT id, receiver, key, last, entries, acknowledged = 2 FROM attempt WHERE acknowledged`

// acknowledgeRest continues removals that a crash interrupted.
func (s *Store) acknowledgeRest(ctx context.Context) error {
	var rest []Attempt
	rows, err := s.readers.QueryContext(ctx, selectAcknowledged)
	err = each(rows, err, func(rows *sql.Rows) error {
		var a Attempt
		err := rows.Scan(&a.ID, &a.Receiver, &a.Key, &a.Last, &a.Entries, &a.GivenUp)
		rest = append(rest, a)
		return err
	})
	for i := 0; i < len(rest) && err == nil; i++ {
		_, err = s.Acknowledge(ctx, &rest[i])
	}
	return err
}

// Limits of the entries of past digests: for each receiver, for all receivers, and their
// age. The newest are kept.
const (
	maxDigested    = 1_000
	maxDigestedAll = 20_000
	digestedLife   = 24 * time.Hour
)

// DigestedEntry is an entry that was part of a digest, a message for several entries.
type DigestedEntry struct {
	// Entry has no Key and no Position.
	Entry
	// Digest is the idempotency key of the message.
	Digest string
	// Delivered is false if the message was given up.
	Delivered bool
	// EndedAt is the time at which the message was delivered or given up.
	EndedAt time.Time
}

const selectDigestedFloor = `SELECT id FROM entry WHERE receiver = ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3`

// selectDigestedEntries selects the entries that the next call of remove deletes and that
// are kept.
const selectDigestedEntries = `
	SELECT id, alarm, count, created_at, payload FROM entry
	WHERE receiver = ?1 AND id > ?2 AND id <= ?3 ORDER BY id`

// digestedEntries reads the entries of a digest that the next call of remove deletes and
// that are kept. They are written after the deletion, when there is space even in a file
// that is full.
func (tx *tx) digestedEntries(ctx context.Context, a *Attempt) (entries []DigestedEntry, err error) {
	floor, err := tx.nth(ctx, selectDigestedFloor, a.Receiver, uint64(a.Last), maxDigested, 0)
	if err != nil {
		return nil, err
	}
	end, err := tx.nth(ctx, byID.nth(), a.Receiver, uint64(a.Last), chunk-1, uint64(a.Last))
	if err != nil || end <= floor {
		return nil, err
	}
	rows, err := tx.query(ctx, selectDigestedEntries, a.Receiver, floor, end)
	err = each(rows, err, func(rows *sql.Rows) error {
		d := DigestedEntry{Entry: Entry{Receiver: a.Receiver}, Digest: a.Key, Delivered: !a.GivenUp}
		err := rows.Scan(&d.ID, &d.Alarm, &d.Count, timestamp{&d.CreatedAt}, &d.Payload)
		entries = append(entries, d)
		return err
	})
	return entries, err
}

// nth runs a query for one number. It returns otherwise if there is no row.
func (tx *tx) nth(ctx context.Context, query, receiver string, upTo uint64, offset int, otherwise uint64) (n uint64, err error) {
	err = tx.row(ctx, query, receiver, upTo, offset).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return otherwise, nil
	}
	return n, err
}

const (
	deleteDigestedOf = `
		DELETE FROM digested WHERE receiver = ?1
		AND id <= (SELECT id FROM digested WHERE receiver = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`
	deleteDigestedOld = `
		DELETE FROM digested WHERE ended_at <= max(?1,
		coalesce((SELECT ended_at FROM digested ORDER BY ended_at DESC LIMIT 1 OFFSET ?2), 0))`
)

// keepDigested stores entries of a digest, and deletes those beyond the limits.
func (tx *tx) keepDigested(ctx context.Context, entries []DigestedEntry, now time.Time) error {
	if len(entries) == 0 {
		return nil
	}
	for i := range entries {
		d := &entries[i]
		_, err := tx.exec(ctx, `
			INSERT INTO digested (id, receiver, alarm, count, created_at, payload, digest, delivered, ended_at)
			VALUES (?, ?, ?, ?, ?, ifnull(?, x''), ?, ?, ?)`,
			d.ID, d.Receiver, d.Alarm, d.Count, micros(d.CreatedAt), d.Payload, d.Digest, d.Delivered, micros(now))
		if err != nil {
			return err
		}
	}
	if _, err := tx.exec(ctx, deleteDigestedOf, entries[0].Receiver, maxDigested); err != nil {
		return err
	}
	_, err := tx.exec(ctx, deleteDigestedOld, micros(now.Add(-digestedLife)), maxDigestedAll)
	return err
}

// makeRoom deletes the entries of past digests, and reports whether there were any.
func (s *Store) makeRoom(ctx context.Context) (made bool) {
	err := s.write(ctx, "delete past digests", func(ctx context.Context, tx *tx) error {
		n, err := tx.exec(ctx, `DELETE FROM digested`)
		made, tx.freed = n > 0, true
		return err
	})
	return made && err == nil
}
