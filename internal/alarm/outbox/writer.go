package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// change is what one caller does in a transaction. It may run more than once, of
// which only the last run counts: what it returns to its caller it must set anew.
type change func(ctx context.Context, tx *tx) error

// writer runs changes on the one connection that writes. Those that wait for it
// at the same time go into one transaction: the sync of the WAL, which is nearly
// all of a small transaction's time, is then shared.
type writer struct {
	db     *sql.DB
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	sync   string // the connection's mode of synchronous
	memory *memory

	waiting sync.Mutex // guards queue
	queue   []*request

	turn   sync.Mutex // guards all else; its holder writes for everyone in the queue
	closed bool
}

type request struct {
	change change
	lazy   bool // need not wait for the disk
	done   bool
	err    error
}

// do runs a change in a transaction and returns when it is durable or undone. A
// change that has begun is not cut short: cancelling could not tell what became
// of it.
func (w *writer) do(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.waiting.Lock()
	w.queue = append(w.queue, r)
	w.waiting.Unlock()

	w.turn.Lock()
	defer w.turn.Unlock()
	if !r.done {
		w.flush(context.WithoutCancel(ctx))
	}
	return r.err
}

// flush settles every request in the queue: all in one transaction, or, should
// that fail, each in its own, so that nobody fails for another's mistake.
func (w *writer) flush(ctx context.Context) {
	w.waiting.Lock()
	requests := w.queue
	w.queue = nil
	w.waiting.Unlock()

	together := w.transact(ctx, requests...) == nil
	for _, r := range requests {
		if !together {
			r.err = w.transact(ctx, r)
		}
		r.done = true
	}
}

// transact runs the changes in one transaction and, once it is committed, makes
// them visible in memory.
func (w *writer) transact(ctx context.Context, requests ...*request) error {
	if w.closed {
		return ErrClosed
	}
	if err := w.setSync(ctx, requests); err != nil {
		return err
	}
	tx := &tx{writer: w}
	if _, err := tx.exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := tx.run(ctx, requests)
	if err != nil {
		// SQLite may have rolled back by itself, on a full disk for example: then
		// there is nothing to roll back, and that is no error of ours.
		_, _ = tx.exec(ctx, `ROLLBACK`)
		return err
	}
	w.memory.apply(tx.changes)
	if tx.freed {
		w.shrink(ctx)
	}
	return nil
}

// setSync has the transaction wait for the disk unless all the requests are lazy.
func (w *writer) setSync(ctx context.Context, requests []*request) error {
	mode := "FULL"
	if !slices.ContainsFunc(requests, func(r *request) bool { return !r.lazy }) {
		mode = "NORMAL"
	}
	if mode == w.sync {
		return nil
	}
	// Not prepared: this pragma takes effect when it is prepared, not when it is run.
	_, err := w.conn.ExecContext(ctx, `PRAGMA synchronous = `+mode)
	if err == nil {
		w.sync = mode
	}
	return err
}

// minFree is below how many free pages the file is left as it is, for the next
// entries to use; maxShrink is how many are given back at a time, so that nobody
// waits long.
const minFree, maxShrink = 1_000, 500

// shrink gives pages back to the file system while most of the file is free.
// That it fails harms nobody: it is tried again after the next removal.
func (w *writer) shrink(ctx context.Context) {
	var free, pages int64
	err := w.conn.QueryRowContext(ctx, `SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count`).Scan(&free, &pages)
	if err == nil && free > minFree && free > pages/2 {
		_, _ = w.conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, maxShrink))
	}
}

func (w *writer) close() error {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	var errs []error
	for _, stmt := range w.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// tx is a transaction of the writer.
type tx struct {
	*writer
	changes []func(*memory)
	freed   bool // whether pages may have become free
}

func (tx *tx) run(ctx context.Context, requests []*request) error {
	for _, r := range requests {
		if err := r.change(ctx, tx); err != nil {
			return err
		}
	}
	_, err := tx.exec(ctx, `COMMIT`)
	return err
}

// after has change done to the memory once the transaction is committed.
func (tx *tx) after(change func(*memory)) {
	tx.changes = append(tx.changes, change)
}

// exec runs a statement, which is prepared once, and returns how many rows it changed.
func (tx *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (tx *tx) row(ctx context.Context, query string, args ...any) scanner {
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		return errorRow{err}
	}
	return stmt.QueryRowContext(ctx, args...)
}

func (tx *tx) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := tx.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

func (w *writer) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := w.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(ctx, query)
	if err == nil {
		w.stmts[query] = stmt
	}
	return stmt, err
}
