package file

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Mode is a set of flags for a change. The zero Mode waits until the change survives a loss of
// power.
type Mode uint8

const (
	// Lazy does not wait for the disk. The change becomes durable with the next one that does.
	Lazy Mode = 1 << iota
	// Bounded must not use the reserved space: the change fails with ErrFull instead.
	Bounded
	// Reserved uses the reserve if the disk is full.
	Reserved
)

// writer runs changes on the one connection that writes. Changes that wait at the same
// time share a transaction, and so one sync of the WAL. The sync takes most of the time
// of a small transaction.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	sync  string // the mode of PRAGMA synchronous
	// maxUsed is how many bytes can be used without the reserve; 0 is no limit.
	maxUsed int64

	waiting sync.Mutex // guards queue
	queue   []*request

	turn   sync.Mutex // guards all other fields; its holder runs all requests of the queue
	closed bool
}

type request struct {
	change func(context.Context, *Tx) error
	mode   Mode
	done   bool
	err    error
}

// do runs a change in a transaction and returns when it is durable or undone. It does not
// cancel a change that has begun, because its outcome would be unknown.
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

// flush runs all requests of the queue in one transaction. If that fails, each request
// gets its own, so that no request fails because of another.
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

// transact runs the changes in one transaction.
func (w *writer) transact(ctx context.Context, requests ...*request) error {
	if w.closed {
		return ErrClosed
	}
	if err := w.setSync(ctx, requests); err != nil {
		return err
	}
	tx := &Tx{writer: w}
	if _, err := tx.Exec(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := tx.run(ctx, requests)
	if err != nil {
		// The error is ignored: SQLite can have rolled back already, for example on a
		// full disk.
		_, _ = tx.Exec(ctx, `ROLLBACK`)
		return err
	}
	if tx.Data != nil {
		tx.Data.Committed()
	}
	if tx.Freed {
		w.shrink(ctx)
	}
	return nil
}

// setSync makes the transaction wait for the disk, unless all requests are lazy.
func (w *writer) setSync(ctx context.Context, requests []*request) error {
	mode := "FULL"
	if !slices.ContainsFunc(requests, func(r *request) bool { return r.mode&Lazy == 0 }) {
		mode = "NORMAL"
	}
	if mode == w.sync {
		return nil
	}
	// Not a prepared statement: this pragma has its effect when it is prepared.
	_, err := w.conn.ExecContext(ctx, `PRAGMA synchronous = `+mode)
	if err == nil {
		w.sync = mode
	}
	return err
}

// minFree is the number of free pages that stay in the file for new rows. maxShrink
// limits the pages that one shrink returns to the file system, so that other writes do
// not wait long.
const minFree, maxShrink = 1_000, 500

// shrink returns pages to the file system while most of the file is free. It ignores
// errors, because the next removal tries again.
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

// Tx is a transaction. Changes that wait at the same time share it.
type Tx struct {
	writer *writer
	// Freed is set by a change that can have freed pages: the file then shrinks.
	Freed bool
	// Data belongs to the changes that share the transaction. It is nil for the first one. Committed
	// is called after the commit, before another transaction begins.
	Data interface{ Committed() }
}

func (tx *Tx) run(ctx context.Context, requests []*request) error {
	for _, r := range requests {
		if err := r.change(ctx, tx); err != nil {
			return err
		}
	}
	if err := tx.checkReserve(ctx, requests); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `COMMIT`)
	return err
}

// checkReserve fails with ErrFull if a bounded request leaves less space than is reserved.
func (tx *Tx) checkReserve(ctx context.Context, requests []*request) error {
	if tx.writer.maxUsed == 0 || !slices.ContainsFunc(requests, func(r *request) bool { return r.mode&Bounded != 0 }) {
		return nil
	}
	used, err := tx.Used(ctx)
	if err != nil {
		return err
	}
	if used > tx.writer.maxUsed {
		return ErrFull
	}
	return nil
}

// SelectUsed is a query for the bytes of the file that are in use, in pages of PageSize.
const SelectUsed = `SELECT (page_count - freelist_count) * 4096 FROM pragma_page_count, pragma_freelist_count`

// Used returns the bytes of the file that are in use, with those of the transaction.
func (tx *Tx) Used(ctx context.Context) (used int64, err error) {
	err = tx.Row(ctx, SelectUsed).Scan(&used)
	return used, err
}

// Exec runs a statement and returns how many rows it changed. Each statement is prepared
// once.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, err := tx.writer.prepare(ctx, query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Row returns the first row of the result of a query.
func (tx *Tx) Row(ctx context.Context, query string, args ...any) Row {
	stmt, err := tx.writer.prepare(ctx, query)
	if err != nil {
		return errorRow{err}
	}
	return stmt.QueryRowContext(ctx, args...)
}

// Query returns the result of a query.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := tx.writer.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// Row is a row of a result.
type Row interface {
	Scan(dest ...any) error
}

// errorRow is the row of a query that failed.
type errorRow struct{ err error }

func (f errorRow) Scan(...any) error { return f.err }
