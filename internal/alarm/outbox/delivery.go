package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Attempt is a prepared message that is not acknowledged. Its body and key never change.
type Attempt struct {
	ID       int64
	Receiver string
	// Lane is the lane of the entries. Only an attempt of the main lane can have several.
	Lane int64
	// Key is the idempotency key of the message.
	Key  string
	Body []byte
	// Last is the ID of the newest entry of the message.
	Last int64
	// Entries and Count are the numbers of entries and occurrences of the message.
	Entries, Count int64
	// Oldest and Newest are the times at which the oldest and the newest entry were created.
	Oldest, Newest time.Time
	// FirstTried is the time at which the message was prepared.
	FirstTried time.Time
	// Batch means that each entry is a message of its own, which one request delivers
	// together with the others.
	Batch bool
	// Picked contains the IDs of the entries if the message leaves out others before Last. Else
	// it is empty.
	Picked []int64
	// Digest means that a message that leaves out others combines several subjects. The outbox
	// does not store it: the sender sets it.
	Digest bool
	// Group is the group of the message, empty if it has none.
	Group string
	// Reference, if set, is stored by Acknowledge for the next message of the group.
	Reference string
	// Remember, if set, is stored by Acknowledge to be sent again: see [Store.Repeated].
	Remember []byte
	// Resolves makes Acknowledge remove the reference and the stored message of the group
	// instead.
	Resolves bool
	// Groups are the groups of a batch, which has no Group.
	Groups []GroupState
	// GivenUp makes Acknowledge record that the message was not delivered.
	GivenUp bool
}

// GroupState is what the last message of a group in a batch changes: see Attempt.Remember and
// Attempt.Resolves.
type GroupState struct {
	Group    string `json:"group"`
	Remember []byte `json:"remember,omitempty"`
	Resolves bool   `json:"resolves,omitempty"`
}

const selectAttempt = `
	SELECT id, receiver, lane, key, body, last, entries, count, oldest, newest, first_tried, group_id, batch, picked FROM attempt
	WHERE receiver = ?1 AND lane = ?2 AND NOT acknowledged`

// Prepared loads the prepared message of a lane. It returns nil if there is none.
func (s *Store) Prepared(ctx context.Context, receiver string, lane int64) (*Attempt, error) {
	var a Attempt
	err := s.readers.QueryRowContext(ctx, selectAttempt, receiver, lane).Scan(&a.ID, &a.Receiver, &a.Lane, &a.Key, &a.Body,
		&a.Last, &a.Entries, &a.Count, timestamp{&a.Oldest}, timestamp{&a.Newest}, timestamp{&a.FirstTried}, &a.Group, &a.Batch, jsonColumn{&a.Picked})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.read("read the prepared message", err)
	}
	return &a, nil
}

func selectPreparable(which selection) string {
	return "SELECT count(*), coalesce(max(id), 0), coalesce(sum(count), 0), coalesce(min(created_at), 0), coalesce(max(created_at), 0)" + which.where()
}

// Prepare binds entries to a message before its first attempt. In the main lane, these are
// the entries up to the ID last, in another lane the one entry with this ID. It fails with
// ErrUnacknowledged if the lane has another prepared message, and with ErrNothingPending if
// there is no such entry. It fails with ErrTooManyPrepared if the receivers of the namespace
// have too many.
func (s *Store) Prepare(ctx context.Context, receiver string, lane, last int64, key string, body []byte) (*Attempt, error) {
	return s.prepare(ctx, &Attempt{Receiver: receiver, Lane: lane, Last: last, Key: key, Body: body})
}

// PrepareBatch is Prepare for entries of the main lane that are a message each.
func (s *Store) PrepareBatch(ctx context.Context, receiver string, last int64, key string, body []byte) (*Attempt, error) {
	return s.prepare(ctx, &Attempt{Receiver: receiver, Lane: MainLane, Last: last, Key: key, Body: body, Batch: true})
}

// PreparePicked is Prepare for entries of the main lane with one subject. The message can leave
// out entries of other messages between them.
func (s *Store) PreparePicked(ctx context.Context, receiver string, ids []int64, key string, body []byte) (*Attempt, error) {
	return s.prepare(ctx, &Attempt{Receiver: receiver, Lane: MainLane, Last: slices.Max(ids), Key: key, Body: body, Picked: ids})
}

// PrepareDigest is PreparePicked for entries of any subject. The message has no group.
func (s *Store) PrepareDigest(ctx context.Context, receiver string, ids []int64, key string, body []byte) (*Attempt, error) {
	return s.prepare(ctx, &Attempt{Receiver: receiver, Lane: MainLane, Last: slices.Max(ids), Key: key, Body: body, Picked: ids, Digest: true})
}

// IsDigest reports whether the message combines several that have no group or batch in common.
func (a *Attempt) IsDigest() bool {
	return a.Entries > 1 && !a.Batch && (len(a.Picked) == 0 || a.Digest)
}

// size returns the bytes that the attempt uses.
func (a *Attempt) size() int64 { return int64(len(a.Body) + len(a.picked())) }

// sizeOfAttempt is Attempt.size in SQL.
const sizeOfAttempt = `length(body) + length(picked)`

// picked returns the column picked, which is null if there are no IDs.
func (a *Attempt) picked() string {
	list, err := json.Marshal(a.Picked)
	if err != nil {
		panic(err) // numbers can always be encoded
	}
	return string(list)
}

func (s *Store) prepare(ctx context.Context, a *Attempt) (*Attempt, error) {
	a.FirstTried = s.clock.Now().UTC().Truncate(time.Microsecond)
	err := s.writeLazily(ctx, "prepare a message", func(ctx context.Context, tx *tx) error {
		if err := tx.bind(ctx, a); err != nil {
			return err
		}
		if err := tx.checkPrepared(ctx, a); err != nil {
			return err
		}
		if a.Entries == 1 && !a.Batch || len(a.Picked) > 0 && !a.Digest { // neither a digest nor a batch has a group
			if err := tx.row(ctx, `SELECT group_id FROM entry WHERE id = ?`, a.Last).Scan(&a.Group); err != nil {
				return err
			}
		}
		return tx.insertAttempt(ctx, a)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// bind sets the fields that describe the entries of an attempt.
func (tx *tx) bind(ctx context.Context, a *Attempt) error {
	which := a.selection()
	row := tx.row(ctx, selectPreparable(which), append([]any{a.Receiver, a.Last}, which.args...)...)
	if err := row.Scan(&a.Entries, &a.Last, &a.Count, timestamp{&a.Oldest}, timestamp{&a.Newest}); err != nil {
		return err
	}
	if a.Entries == 0 || len(a.Picked) > 0 && a.Entries != int64(len(a.Picked)) {
		return ErrNothingPending
	}
	return nil
}

func (tx *tx) insertAttempt(ctx context.Context, a *Attempt) error {
	err := tx.row(ctx, `
		INSERT INTO attempt (receiver, lane, key, body, last, entries, count, oldest, newest, first_tried, group_id, batch, picked)
		VALUES (?, ?, ?, ifnull(?, x''), ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (receiver, lane) DO NOTHING RETURNING id`,
		a.Receiver, a.Lane, a.Key, a.Body, a.Last, a.Entries, a.Count, micros(a.Oldest), micros(a.Newest), micros(a.FirstTried), a.Group, a.Batch, a.picked()).Scan(&a.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrUnacknowledged
	}
	tx.after(func(m *memory) { m.prepared.add(a.Receiver, a.size()) })
	return err
}

// preparedShare divides the free space of the file: the prepared messages for the receivers
// of one namespace can use a sixteenth of it. A namespace can have any number of receivers
// that do not answer.
const preparedShare = 16

// checkPrepared fails if the receivers of the namespace have too many prepared messages.
// They can always have one.
func (tx *tx) checkPrepared(ctx context.Context, a *Attempt) error {
	if tx.maxPages == 0 {
		return nil
	}
	var used int64
	if err := tx.row(ctx, selectUsedPages).Scan(&used); err != nil {
		return err
	}
	size := tx.memory.preparedFor(a.Receiver)
	if size > 0 && size+a.size() > (tx.maxPages-used)*pageSize/preparedShare {
		return ErrTooManyPrepared
	}
	return nil
}

// deletePrepared deletes the attempts that a condition selects.
func (tx *tx) deletePrepared(ctx context.Context, where string, arg any) error {
	gone := Counts{}
	rows, err := tx.query(ctx, `DELETE FROM attempt WHERE `+where+` RETURNING receiver, `+sizeOfAttempt, arg)
	tx.after(func(m *memory) { m.prepared.subtract(gone) })
	return gone.scan(rows, err)
}

// Acknowledge removes an attempt that was delivered or given up, with its entries, and
// returns their counts. It keeps the newest entries of a digest for Inspect.
//
// After the first chunk of entries is removed, the message is never sent again. If a
// crash or an error interrupts the removal, the next Acknowledge or Open continues it. If
// the attempt does not exist any more, Acknowledge removes nothing.
func (s *Store) Acknowledge(ctx context.Context, a *Attempt) (Counts, error) {
	if !a.IsDigest() {
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
		return tx.acknowledge(ctx, a, endedAt, s.clock.Now())
	})
}

// Values of attempt.acknowledged.
const (
	acknowledgedDelivered = 1
	acknowledgedGivenUp   = 2
)

func (tx *tx) acknowledge(ctx context.Context, a *Attempt, endedAt, now time.Time) (counts Counts, done bool, err error) {
	state := acknowledgedDelivered
	if a.GivenUp {
		state = acknowledgedGivenUp
	}
	found, err := tx.exec(ctx, `UPDATE attempt SET acknowledged = ? WHERE id = ?`, state, a.ID)
	if found == 0 || err != nil {
		return nil, true, err
	}
	accepted := sql.Null[int64]{V: micros(now), Valid: !a.GivenUp}
	if err := errors.Join(tx.acknowledgeGroups(ctx, a, now), tx.putAccepted(ctx, a.Receiver, a.selection(), uint64(a.Last), accepted)); err != nil {
		return nil, false, err
	}
	var kept []DigestedEntry
	if !endedAt.IsZero() {
		if kept, err = tx.digestedEntries(ctx, a); err != nil {
			return nil, false, err
		}
	}
	counts, done, err = tx.remove(ctx, a.Receiver, a.selection(), uint64(a.Last))
	if err == nil {
		err = tx.countEnded(ctx, a, counts, now)
	}
	if err == nil {
		err = tx.keepDigested(ctx, kept, endedAt)
	}
	if !done || err != nil {
		return counts, false, err
	}
	return counts, true, tx.deletePrepared(ctx, `id = ?`, a.ID)
}

// acknowledgeGroups stores what the next message of each group needs, or removes it.
func (tx *tx) acknowledgeGroups(ctx context.Context, a *Attempt, now time.Time) error {
	for _, g := range a.Groups {
		of := &Attempt{Receiver: a.Receiver, Group: g.Group, Remember: g.Remember, Resolves: g.Resolves}
		if err := tx.acknowledgeGroup(ctx, of, now); err != nil {
			return err
		}
	}
	return tx.acknowledgeGroup(ctx, a, now)
}

// acknowledgeGroup stores what the next message of the group needs, or removes it.
func (tx *tx) acknowledgeGroup(ctx context.Context, a *Attempt, now time.Time) error {
	if a.Resolves {
		a.Reference, a.Remember = "", nil
	}
	if a.Reference != "" || a.Resolves {
		if err := tx.putReference(ctx, a); err != nil {
			return err
		}
	}
	if a.Remember != nil || a.Resolves {
		return tx.remember(ctx, a.Receiver, a.Group, a.Remember, now)
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
	AND budget = (SELECT budget FROM open_group WHERE receiver = ?1 AND id = ?2)`

// Threads returns the number of groups with a reference that a receiver has of the same
// budget as a group.
func (s *Store) Threads(ctx context.Context, receiver, group string) (n int64, err error) {
	err = s.readers.QueryRowContext(ctx, selectThreads, receiver, group).Scan(&n)
	return n, s.read("count the threads of a receiver", err)
}

const selectAcknowledged = `SELECT id, receiver, lane, key, last, entries, batch, picked, acknowledged = 2 FROM attempt WHERE acknowledged`

// acknowledgeRest continues removals that a crash interrupted.
func (s *Store) acknowledgeRest(ctx context.Context) error {
	var rest []Attempt
	rows, err := s.readers.QueryContext(ctx, selectAcknowledged)
	err = each(rows, err, func(rows *sql.Rows) error {
		var a Attempt
		err := rows.Scan(&a.ID, &a.Receiver, &a.Lane, &a.Key, &a.Last, &a.Entries, &a.Batch, jsonColumn{&a.Picked}, &a.GivenUp)
		rest = append(rest, a)
		return err
	})
	for i := 0; i < len(rest) && err == nil; i++ {
		_, err = s.Acknowledge(ctx, &rest[i])
	}
	return err
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

// selectNewestOmitted returns the query for the newest entry that is not kept.
func selectNewestOmitted(s selection) string {
	return "SELECT id" + s.where() + fmt.Sprintf(" ORDER BY id DESC LIMIT 1 OFFSET %d", maxDigested)
}

// selectDigestedEntries returns the query for the entries that the next call of remove deletes
// and that are kept. Its last argument is the ID after which they begin.
func selectDigestedEntries(s selection) string {
	return `
	SELECT id, alarm, count, created_at, iif(length(payload) > 4096, x'', payload) FROM (
		SELECT id, alarm, count, created_at, coalesce((SELECT data FROM content WHERE content.id = entry.content), ` + payloadOfParts + `) AS payload` +
		s.where() + fmt.Sprintf(" AND id > ?%d", 3+len(s.args)) + `) ORDER BY id`
}

// payloadOfEntry is the payload of an entry joined with its content, or that of the newest part
// of a group's message.
const (
	payloadOfEntry = `coalesce(data, ` + payloadOfParts + `)`
	payloadOfParts = `(
	SELECT part.data FROM held JOIN content part ON part.id = held.content
	WHERE held.entry = entry.id ORDER BY held.due DESC, held.position DESC LIMIT 1), x''`
)

// digestedEntries reads the entries of a digest that the next call of remove deletes and
// that are kept. They are written after the deletion, when there is space even in a file
// that is full.
func (tx *tx) digestedEntries(ctx context.Context, a *Attempt) (entries []DigestedEntry, err error) {
	which := a.selection()
	upTo := func(last uint64) []any { return append([]any{a.Receiver, last}, which.args...) }
	omitted, err := tx.nth(ctx, 0, selectNewestOmitted(which), upTo(uint64(a.Last))...)
	if err != nil {
		return nil, err
	}
	end, err := tx.nth(ctx, uint64(a.Last), which.nth(), upTo(uint64(a.Last))...)
	if err != nil || end <= omitted {
		return nil, err
	}
	rows, err := tx.query(ctx, selectDigestedEntries(which), append(upTo(end), omitted)...)
	err = each(rows, err, func(rows *sql.Rows) error {
		d := DigestedEntry{Entry: Entry{Receiver: a.Receiver}, Digest: a.Key, Delivered: !a.GivenUp}
		err := rows.Scan(&d.ID, &d.Alarm, &d.Count, timestamp{&d.CreatedAt}, &d.Payload)
		entries = append(entries, d)
		return err
	})
	return entries, err
}

// nth runs a query for one number. It returns otherwise if there is no row.
func (tx *tx) nth(ctx context.Context, otherwise uint64, query string, args ...any) (n uint64, err error) {
	err = tx.row(ctx, query, args...).Scan(&n)
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
	err := s.makeSpace(ctx, "delete past digests", func(ctx context.Context, tx *tx) error {
		n, err := tx.exec(ctx, `DELETE FROM digested`)
		made, tx.freed = n > 0, true
		return err
	})
	return made && err == nil
}
