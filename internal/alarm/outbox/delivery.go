package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
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
	// Entries are the IDs of the entries of the message. Those of a tenant are in order.
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
	SELECT attempt.id, receiver, lane, key, data, entries, count, oldest, first_tried
	FROM attempt JOIN content ON content.id = attempt.content WHERE receiver = ?1 AND lane = ?2`

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
	body, err := tx.putMessage(ctx, sql.Null[int64]{}, a.Body)
	if err != nil {
		return err
	}
	err = tx.row(ctx, `
		INSERT INTO attempt (receiver, lane, key, entries, count, oldest, first_tried, content, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (receiver, lane) DO NOTHING RETURNING id`,
		a.Receiver, a.Lane, a.Key, jsonColumn{a.Entries}, a.Count, micros(a.Oldest), micros(a.FirstTried), body, a.size()).Scan(&a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnfinished
	}
	tx.after(func(m *memory) { m.prepared.add(a.Receiver, a.size()) })
	return err
}

// size returns the bytes that the attempt uses.
func (a *Attempt) size() int64 { return int64(len(a.Body) + 8*len(a.Entries)) }

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
	rows, err := tx.query(ctx, `DELETE FROM attempt WHERE `+where+` RETURNING receiver, bytes`, args...)
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
func (s *core) finish(ctx context.Context, a *Attempt, o *Outcome) (counts Counts, err error) {
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

// putReference stores the reference of a group's message if the group is open and its tenant
// has the space. Without a reference, the next message begins a thread of its own.
func (tx *tx) putReference(ctx context.Context, receiver string, of GroupState) error {
	g, known, err := tx.group(ctx, receiver, of.Group)
	if !known || err != nil {
		return err
	}
	added := referenceBytes(of.Reference, g.name) - referenceBytes(g.reference, g.name)
	if !tx.space.Fits(ledger.Groups, g.tenant, added, leftByReferences) {
		return nil
	}
	tx.space.Add(ledger.Groups, g.tenant, added)
	_, err = tx.exec(ctx, `UPDATE open_group SET reference = ?, bytes = bytes + ? WHERE receiver = ? AND id = ?`, of.Reference, added, receiver, of.Group)
	return err
}

// countEnded counts the occurrences of a message that was delivered or given up.
func (tx *tx) countEnded(ctx context.Context, receiver string, o *Outcome, ended Counts, now time.Time) error {
	if o.GivenUp {
		return tx.countEach(ctx, receiver, ended, dropped)
	}
	return tx.countEach(ctx, receiver, ended, func(n int64) StatusCounts { return StatusCounts{Delivered: n, LastDelivery: now} })
}

// Failure is why the last attempt to send a message failed.
type Failure struct {
	// Error is for users. NoteFailure cuts it.
	Error string
	// Next is when the operator tries again, zero if that is unknown.
	Next time.Time
}

// maxFailure is the maximum length of Failure.Error, in bytes.
const maxFailure = 256

// NoteFailure stores the last failure of an attempt, for Inspect. It does not wait for the disk,
// and fails with file.ErrFull before it uses reserved space: the caller can ignore errors.
func (s *Store) NoteFailure(ctx context.Context, a *Attempt, f Failure) error {
	return s.do(ctx, "store the failure of a message", file.Lazy|file.Bounded, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `UPDATE attempt SET error = ?, next = ? WHERE id = ?`,
			plaintext.Cut(plaintext.Line(f.Error), maxFailure), micros(f.Next), a.ID)
		return err
	})
}
