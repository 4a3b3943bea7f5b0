package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// View is the content of an outbox at one moment.
type View struct {
	State
	// Receivers that have entries, sorted by name.
	Receivers []ReceiverView
}

// ReceiverView contains the entries of a receiver that wait, and those of past digests.
type ReceiverView struct {
	Receiver string
	// Entries and Count are the numbers of entries and occurrences that wait, including
	// those in groups.
	Entries, Count int64
	// Waiting contains the oldest entries that wait. Those in groups come last.
	Waiting []WaitingEntry
	// Digested contains the newest entries of past digests, newest first.
	Digested []DigestedEntry
}

// WaitingEntry is an entry that is not sent yet.
type WaitingEntry struct {
	Entry
	// FirstTried is the time of the first attempt to send the message, zero before it.
	FirstTried time.Time
	// Failure is why the last attempt failed, empty if none did.
	Failure Failure
	// SetAside is true if the entry is in a lane other than the main lane.
	SetAside bool
	// Due is the time at which the message of its group is made. It is zero if the entry
	// has no group, or if the message is made.
	Due time.Time
}

// Inspect reads the outbox in dir, which another process can have open: see [file.View]. It reads
// the receivers for which wanted returns true, and at most limit entries of each list; 0 is no
// limit.
func Inspect(ctx context.Context, dir string, limit int, wanted func(receiver string) bool) (v *View, err error) {
	if limit <= 0 {
		limit = -1 // no limit in SQLite
	}
	err = file.View(ctx, dir, tables(), func(ctx context.Context, tx *sql.Tx) (err error) {
		v, err = readView(ctx, tx, limit, wanted)
		return err
	})
	return v, err
}

func readView(ctx context.Context, tx *sql.Tx, limit int, wanted func(string) bool) (_ *View, err error) {
	v := &View{}
	if v.State, err = scanState(tx.QueryRowContext(ctx, selectState)); err != nil {
		return nil, err
	}
	if v.Receivers, err = receiverViews(ctx, tx); err != nil {
		return nil, err
	}
	kept := v.Receivers[:0]
	for _, r := range v.Receivers {
		if !wanted(r.Receiver) {
			continue
		}
		if err := errors.Join(r.readWaiting(ctx, tx, limit), r.readDigested(ctx, tx, limit)); err != nil {
			return nil, err
		}
		kept = append(kept, r)
	}
	v.Receivers = kept
	return v, nil
}

func receiverViews(ctx context.Context, tx *sql.Tx) (all []ReceiverView, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT receiver, sum(entries), sum(occurrences) FROM (
			SELECT receiver, 1 AS entries, count AS occurrences FROM entry
			UNION ALL SELECT receiver, 1, count FROM held WHERE entry IS NULL
			UNION ALL SELECT receiver, 0, 0 FROM digested
		) GROUP BY receiver ORDER BY receiver`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var v ReceiverView
		err := rows.Scan(&v.Receiver, &v.Entries, &v.Count)
		all = append(all, v)
		return err
	})
	return all, err
}

func (v *ReceiverView) readWaiting(ctx context.Context, tx *sql.Tx, limit int) error {
	rows, err := tx.QueryContext(ctx, `
		SELECT * FROM (
			SELECT entry.alarm, entry.key, entry.position, entry.count, entry.created_at, `+payloadOfEntry+`, coalesce(a.first_tried, 0), 0 AS due, aside, coalesce(a.error, ''), coalesce(a.next, 0)
			FROM entry LEFT JOIN content ON content.id = entry.content
			LEFT JOIN (SELECT value AS prepared, first_tried, error, next FROM attempt, json_each(entries) WHERE receiver = ?1) a ON prepared = entry.id
			WHERE entry.receiver = ?1 ORDER BY entry.id LIMIT ?2)
		UNION ALL SELECT * FROM (
			SELECT alarm, key, position, count, created_at, data, 0, max(due, coalesce(release_at, 0)), 0, '', 0 FROM held JOIN content ON content.id = held.content
			WHERE receiver = ?1 AND entry IS NULL ORDER BY due, position LIMIT ?2)
		LIMIT ?2`, v.Receiver, limit)
	return each(rows, err, func(rows *sql.Rows) error {
		w := WaitingEntry{Entry: Entry{Receiver: v.Receiver}}
		err := rows.Scan(&w.Alarm, &w.Key, &w.Position, &w.Count, timestamp{&w.CreatedAt}, &w.Payload, timestamp{&w.FirstTried}, timestamp{&w.Due}, &w.SetAside, &w.Failure.Error, timestamp{&w.Failure.Next})
		v.Waiting = append(v.Waiting, w)
		return err
	})
}

func (v *ReceiverView) readDigested(ctx context.Context, tx *sql.Tx, limit int) error {
	rows, err := tx.QueryContext(ctx, `
		SELECT id, alarm, count, created_at, payload, digest, delivered, ended_at FROM digested
		WHERE receiver = ?1 ORDER BY id DESC LIMIT ?2`, v.Receiver, limit)
	return each(rows, err, func(rows *sql.Rows) error {
		d := DigestedEntry{Entry: Entry{Receiver: v.Receiver}}
		err := rows.Scan(&d.ID, &d.Alarm, &d.Count, timestamp{&d.CreatedAt}, &d.Payload, &d.Digest, &d.Delivered, timestamp{&d.EndedAt})
		v.Digested = append(v.Digested, d)
		return err
	})
}
