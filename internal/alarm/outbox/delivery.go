package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// MaxEntries limits the entries of a message. One transaction can then remove all of them.
const MaxEntries = 1_000

// Attempt is a prepared message that is not finished. Its body and key never change.
type Attempt struct {
	ID       int64
	Receiver string
	// Lane is the lane of the entries. Only an attempt of the main lane can have several.
	Lane int64
	// Key is the idempotency key of the message.
	Key  string
	Body []byte
	// Entries are the IDs of the entries of the message, the oldest first.
	Entries []int64
	// Count is the number of occurrences of the message.
	Count int64
	// Oldest is the time at which the oldest entry was created.
	Oldest time.Time
	// FirstTried is the time at which the message was prepared.
	FirstTried time.Time
}

// Outcome is how a message ended: it was delivered, unless it was given up.
type Outcome struct {
	GivenUp bool
	// KeepEntries keeps the entries of a digest for Inspect.
	KeepEntries bool
	// Groups are the states of groups after the delivery.
	Groups []GroupState
}

// GroupState is what the last message of a group in a delivery changes.
type GroupState struct {
	Group string `json:"group"`
	// Reference, if set, is stored for the next message of the group.
	Reference string `json:"-"`
	// Remember, if set, is stored to be sent again: see [Store.Repeated].
	Remember []byte `json:"remember,omitempty"`
	// Resolves removes the reference and the stored message of the group instead.
	Resolves bool `json:"resolves,omitempty"`
}

const selectAttempt = `
	SELECT id, receiver, lane, key, body, entries, count, oldest, first_tried FROM attempt WHERE receiver = ?1 AND lane = ?2`

// Prepared loads the prepared message of a lane. It returns nil if there is none.
func (s *Store) Prepared(ctx context.Context, receiver string, lane int64) (*Attempt, error) {
	var a Attempt
	err := s.readers.QueryRowContext(ctx, selectAttempt, receiver, lane).Scan(&a.ID, &a.Receiver, &a.Lane, &a.Key, &a.Body,
		jsonColumn{&a.Entries}, &a.Count, timestamp{&a.Oldest}, timestamp{&a.FirstTried})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.read("read the prepared message", err)
	}
	return &a, nil
}

// Prepare binds entries of a lane to a message before its first attempt. Several entries must be
// of the main lane, [MaxEntries] at most. It fails with ErrUnfinished if the lane has
// another prepared message, and with ErrNothingPending if one of the entries does not exist. It
// fails with ErrTooManyPrepared if the receivers of the namespace have too many.
func (s *Store) Prepare(ctx context.Context, receiver string, lane int64, entries []int64, key string, body []byte) (*Attempt, error) {
	if len(entries) > MaxEntries {
		return nil, fmt.Errorf("prepare a message: %d entries are too many", len(entries))
	}
	a := &Attempt{Receiver: receiver, Lane: lane, Key: key, Body: body, Entries: entries, FirstTried: s.clock.Now().UTC().Truncate(time.Microsecond)}
	err := s.writeLazily(ctx, "prepare a message", func(ctx context.Context, tx *tx) error {
		if err := tx.bind(ctx, a); err != nil {
			return err
		}
		if err := tx.checkPrepared(ctx, a); err != nil {
			return err
		}
		return tx.insertAttempt(ctx, a)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// selectPreparable does not use an index of receivers, because the IDs select few entries.
func selectPreparable(lane int64) string {
	return `SELECT count(*), coalesce(sum(count), 0), coalesce(min(created_at), 0) FROM entry
	WHERE id IN (SELECT value FROM json_each(?3)) AND +receiver = ?1 AND ` + inLane(lane, "?2")
}

// bind sets the fields that describe the entries of an attempt.
func (tx *tx) bind(ctx context.Context, a *Attempt) error {
	var found int
	err := tx.row(ctx, selectPreparable(a.Lane), a.Receiver, a.Lane, jsonColumn{a.Entries}).Scan(&found, &a.Count, timestamp{&a.Oldest})
	if err == nil && (found == 0 || found != len(a.Entries)) {
		return ErrNothingPending
	}
	return err
}

func (tx *tx) insertAttempt(ctx context.Context, a *Attempt) error {
	err := tx.row(ctx, `
		INSERT INTO attempt (receiver, lane, key, entries, count, oldest, first_tried, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ifnull(?, x''))
		ON CONFLICT (receiver, lane) DO NOTHING RETURNING id`,
		a.Receiver, a.Lane, a.Key, jsonColumn{a.Entries}, a.Count, micros(a.Oldest), micros(a.FirstTried), a.Body).Scan(&a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnfinished
	}
	tx.after(func(m *memory) { m.prepared.add(a.Receiver, a.size()) })
	return err
}

// size returns the bytes that the attempt uses.
func (a *Attempt) size() int64 { return int64(len(a.Body) + 8*len(a.Entries)) }

// sizeOfAttempt is Attempt.size in SQL.
const sizeOfAttempt = `length(body) + 8 * json_array_length(entries)`

// preparedShare divides the free space of the file: the prepared messages for the receivers
// of one namespace can use a sixteenth of it. A namespace can have any number of receivers
// that do not answer.
const preparedShare = 16

// checkPrepared fails if the receivers of the namespace have too many prepared messages.
// They can always have one.
func (tx *tx) checkPrepared(ctx context.Context, a *Attempt) error {
	if tx.maxBytes == 0 {
		return nil
	}
	used, err := tx.Used(ctx)
	if err != nil {
		return err
	}
	size := tx.memory.preparedFor(a.Receiver)
	if size > 0 && size+a.size() > (tx.maxBytes-used)/preparedShare {
		return ErrTooManyPrepared
	}
	return nil
}

// deletePrepared deletes the attempts that a condition selects.
func (tx *tx) deletePrepared(ctx context.Context, where string, args ...any) error {
	gone := Counts{}
	rows, err := tx.query(ctx, `DELETE FROM attempt WHERE `+where+` RETURNING receiver, `+sizeOfAttempt, args...)
	tx.after(func(m *memory) { m.prepared.subtract(gone) })
	return gone.scan(rows, err)
}

// deleteBroken is the condition for the attempts of a receiver (?1) with one of some entries (?2).
const deleteBroken = `receiver = ?1 AND EXISTS (SELECT 1 FROM json_each(entries) WHERE value IN (SELECT value FROM json_each(?2)))`

// Discard removes a prepared message, and drops some of its entries. Its other entries are pending
// again. It returns the counts of those that it dropped.
func (s *Store) Discard(ctx context.Context, a *Attempt, drop ...int64) (counts Counts, err error) {
	err = s.writeLazily(ctx, "discard a prepared message", func(ctx context.Context, tx *tx) (err error) {
		if err := tx.deletePrepared(ctx, `id = ?`, a.ID); err != nil || len(drop) == 0 {
			return err
		}
		counts, err = tx.drop(ctx, a.Receiver, drop)
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// Finish removes an attempt that was delivered or given up, with its entries, and
// returns their counts. If the attempt does not exist any more, Finish removes nothing.
func (s *Store) Finish(ctx context.Context, a *Attempt, o Outcome) (Counts, error) {
	counts, err := s.finish(ctx, a, &o)
	if o.KeepEntries && errors.Is(err, file.ErrFull) { // the entries of past digests are optional
		o.KeepEntries = false
		counts, err = s.finish(ctx, a, &o)
	}
	return counts, err
}

// finish does not wait for the disk, so that the disk does not limit the speed of delivery.
// After a loss of power, some messages are sent twice.
func (s *Store) finish(ctx context.Context, a *Attempt, o *Outcome) (counts Counts, err error) {
	err = s.writeLazily(ctx, "finish a message", func(ctx context.Context, tx *tx) (err error) {
		counts, err = tx.finish(ctx, a, o, s.clock.Now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

func (tx *tx) finish(ctx context.Context, a *Attempt, o *Outcome, now time.Time) (counts Counts, err error) {
	var exists bool
	if err := tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM attempt WHERE id = ?)`, a.ID).Scan(&exists); !exists || err != nil {
		return Counts{}, err
	}
	for _, g := range o.Groups {
		if err := tx.finishGroup(ctx, a.Receiver, g, now); err != nil {
			return nil, err
		}
	}
	if err := tx.putAccepted(ctx, a.Receiver, a.Entries, sql.Null[int64]{V: micros(now), Valid: !o.GivenUp}); err != nil {
		return nil, err
	}
	var kept []DigestedEntry
	if o.KeepEntries {
		if kept, err = tx.digestedEntries(ctx, a, o); err != nil {
			return nil, err
		}
	}
	if counts, err = tx.remove(ctx, a.Receiver, a.Entries); err != nil {
		return nil, err
	}
	return counts, errors.Join(tx.countEnded(ctx, a.Receiver, o, counts, now), tx.keepDigested(ctx, kept, now))
}

// finishGroup stores what the next message of the group needs, or removes it.
func (tx *tx) finishGroup(ctx context.Context, receiver string, g GroupState, now time.Time) error {
	if g.Resolves {
		g.Reference, g.Remember = "", nil
	}
	if g.Reference != "" || g.Resolves {
		if err := tx.putReference(ctx, receiver, g); err != nil {
			return err
		}
	}
	if g.Remember != nil || g.Resolves {
		return tx.remember(ctx, receiver, g.Group, g.Remember, now)
	}
	return nil
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

const selectThreads = `
	SELECT count(*) FROM open_group WHERE receiver = ?1 AND reference <> ''
	AND tenant = (SELECT tenant FROM open_group WHERE receiver = ?1 AND id = ?2)`

// Threads returns the number of groups with a reference that a receiver has of the same
// tenant as a group.
func (s *Store) Threads(ctx context.Context, receiver, group string) (n int64, err error) {
	err = s.readers.QueryRowContext(ctx, selectThreads, receiver, group).Scan(&n)
	return n, s.read("count the threads of a receiver", err)
}

// Limits of the entries of past digests: for each receiver, for all receivers, and their
// age. The newest are kept. A payload of more than 4 KiB is left out, so that all of them
// have 20 MiB at most.
const (
	maxDigested    = 1_000
	maxDigestedAll = 5_000
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

// selectDigestedEntries selects the entries of a digest that are kept.
const selectDigestedEntries = `
	SELECT id, alarm, count, created_at, iif(length(payload) > 4096, x'', payload) FROM (
		SELECT id, alarm, count, created_at, coalesce((SELECT data FROM content WHERE content.id = entry.content), ` + payloadOfParts + `) AS payload
		FROM entry WHERE id IN (SELECT value FROM json_each(?))) ORDER BY id`

// payloadOfEntry is the payload of an entry joined with its content, or that of the newest part
// of a group's message.
const (
	payloadOfEntry = `coalesce(data, ` + payloadOfParts + `)`
	payloadOfParts = `(
	SELECT part.data FROM held JOIN content part ON part.id = held.content
	WHERE held.entry = entry.id ORDER BY held.due DESC, held.position DESC LIMIT 1), x''`
)

// digestedEntries reads the entries of a digest before their removal. They are written after it,
// when there is space even in a file that is full.
func (tx *tx) digestedEntries(ctx context.Context, a *Attempt, o *Outcome) (entries []DigestedEntry, err error) {
	rows, err := tx.query(ctx, selectDigestedEntries, jsonColumn{a.Entries})
	err = each(rows, err, func(rows *sql.Rows) error {
		d := DigestedEntry{Entry: Entry{Receiver: a.Receiver}, Digest: a.Key, Delivered: !o.GivenUp}
		err := rows.Scan(&d.ID, &d.Alarm, &d.Count, timestamp{&d.CreatedAt}, &d.Payload)
		entries = append(entries, d)
		return err
	})
	return entries, err
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
	err := s.makeSpace(ctx, "delete past digests", func(ctx context.Context, tx *tx) error {
		n, err := tx.exec(ctx, `DELETE FROM digested`)
		made, tx.Freed = n > 0, true
		return err
	})
	return made && err == nil
}
