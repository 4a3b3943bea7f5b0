package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// View is what there is to see in a ledger, at one moment.
type View struct {
	State
	// Receivers are those that have something in it, in the order of their names.
	Receivers []ReceiverView
}

// Outlook is what a receiver has before it, and was told in digests lately.
type ReceiverView struct {
	Receiver string
	// Entries and Count are how many entries and occurrences wait, in groups too.
	Entries, Count int64
	// Waiting are the oldest of them, those in groups last.
	Waiting []WaitingEntry
	// Digested are the newest that were told of in digests, the newest first.
	Digested []DigestedEntry
}

// Waiting is an entry that is still to be sent.
type WaitingEntry struct {
	Entry
	// Tried is when the message that it is part of was first tried; the zero time if
	// it was not.
	FirstTried time.Time
	// Due is when the message of its group is made; the zero time if it is in none, or
	// the message is made.
	Due time.Time
}

// Look reads the ledger in dir, which another process may have open: it takes no lock
// and changes nothing. Of each receiver that is wanted it reads at most limit entries
// of either sort; 0 is all. It fails with fs.ErrNotExist if there is no ledger, and with
// ErrOlderSchema or ErrNewerSchema if it is of another release.
func Inspect(ctx context.Context, dir string, limit int, wanted func(receiver string) bool) (*View, error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = -1 // SQLite's word for all
	}
	db, err := sql.Open("sqlite", dsn(path, readOnly(path), "query_only(1)", "busy_timeout(5000)", "temp_store(MEMORY)"))
	if err != nil {
		return nil, err
	}
	v, err := readView(ctx, db, limit, wanted)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("reading the ledger in %s: %w", dir, classify(err))
	}
	return v, nil
}

// readOnly is how a file is opened that may not be changed. Without a WAL nobody has it
// open: then it is read as it is, for SQLite would put files beside it otherwise.
func readOnly(path string) string {
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return "mode=ro&immutable=1"
	}
	return "mode=ro"
}

// look reads in one transaction, so that all is of one moment.
func readView(ctx context.Context, db *sql.DB, limit int, wanted func(string) bool) (*View, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was changed
	var version int
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return nil, err
	}
	switch {
	case version > len(migrations):
		return nil, fmt.Errorf("%w: its version is %d, the newest known is %d", ErrNewerSchema, version, len(migrations))
	case version < len(migrations):
		return nil, fmt.Errorf("%w: its version is %d, this release's is %d", ErrOlderSchema, version, len(migrations))
	}
	v := &View{}
	if v.State, err = scanState(tx.QueryRowContext(ctx, selectState)); err != nil {
		return nil, err
	}
	if v.Receivers, err = receiverViews(ctx, tx); err != nil {
		return nil, err
	}
	kept := v.Receivers[:0]
	for _, o := range v.Receivers {
		if !wanted(o.Receiver) {
			continue
		}
		if err := errors.Join(o.readWaiting(ctx, tx, limit), o.readDigested(ctx, tx, limit)); err != nil {
			return nil, err
		}
		kept = append(kept, o)
	}
	v.Receivers = kept
	return v, nil
}

// unsettled leaves out what a message that was settled has left for a moment.
const unacknowledged = `
	FROM entry LEFT JOIN attempt a ON a.receiver = entry.receiver AND entry.id <= a.last WHERE coalesce(a.settled, 0) = 0`

func receiverViews(ctx context.Context, tx *sql.Tx) (all []ReceiverView, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT receiver, sum(entries), sum(occurrences) FROM (
			SELECT entry.receiver, 1 AS entries, entry.count AS occurrences`+unacknowledged+`
			UNION ALL SELECT receiver, 1, count FROM held WHERE entry IS NULL
			UNION ALL SELECT receiver, 0, 0 FROM digested
		) GROUP BY receiver ORDER BY receiver`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var o ReceiverView
		err := rows.Scan(&o.Receiver, &o.Entries, &o.Count)
		all = append(all, o)
		return err
	})
	return all, err
}

func (o *ReceiverView) readWaiting(ctx context.Context, tx *sql.Tx, limit int) error {
	rows, err := tx.QueryContext(ctx, `
		SELECT * FROM (
			SELECT entry.alarm, entry.key, entry.position, entry.count, entry.created_at, entry.payload, coalesce(a.first_tried, 0), 0 AS due`+unacknowledged+`
			AND entry.receiver = ?1 ORDER BY entry.id LIMIT ?2)
		UNION ALL SELECT * FROM (
			SELECT alarm, key, position, count, created_at, payload, 0, due FROM held
			WHERE receiver = ?1 AND entry IS NULL ORDER BY due, position LIMIT ?2)
		LIMIT ?2`, o.Receiver, limit)
	return each(rows, err, func(rows *sql.Rows) error {
		w := WaitingEntry{Entry: Entry{Receiver: o.Receiver}}
		err := rows.Scan(&w.Alarm, &w.Key, &w.Position, &w.Count, timestamp{&w.CreatedAt}, &w.Payload, timestamp{&w.FirstTried}, timestamp{&w.Due})
		o.Waiting = append(o.Waiting, w)
		return err
	})
}

func (o *ReceiverView) readDigested(ctx context.Context, tx *sql.Tx, limit int) error {
	rows, err := tx.QueryContext(ctx, `
		SELECT id, alarm, count, created_at, payload, digest, delivered, settled_at FROM digested
		WHERE receiver = ?1 ORDER BY id DESC LIMIT ?2`, o.Receiver, limit)
	return each(rows, err, func(rows *sql.Rows) error {
		d := DigestedEntry{Entry: Entry{Receiver: o.Receiver}}
		err := rows.Scan(&d.ID, &d.Alarm, &d.Count, timestamp{&d.CreatedAt}, &d.Payload, &d.Digest, &d.Delivered, timestamp{&d.EndedAt})
		o.Digested = append(o.Digested, d)
		return err
	})
}
