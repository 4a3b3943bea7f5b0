package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// change is the work of one caller in a transaction. It can run more than once, and only
// the last run counts. It must therefore set all its results again in each run.
type change func(ctx context.Context, tx *tx) error

// writer runs changes on the one connection that writes. Changes that wait at the same
// time share a transaction, and so one sync of the WAL. The sync takes most of the time
// of a small transaction.
type writer struct {
	db     *sql.DB
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	sync   string // the mode of PRAGMA synchronous
	memory *memory
	// compose makes the payloads of messages of groups.
	compose Composer
	// maxPages is the largest size of the file, and maxUsed what can be used of it without
	// the reserve, in pages; 0 is no limit.
	maxPages, maxUsed int64
	// accounts contains IDs of accounts.
	accounts map[accountKey]int64
	// countsForgotten: the counts in the file are incomplete until the next start.
	countsForgotten bool

	waiting sync.Mutex // guards queue
	queue   []*request

	turn   sync.Mutex // guards all other fields; its holder runs all requests of the queue
	closed bool
}

type request struct {
	change  change
	lazy    bool // does not wait for the disk
	bounded bool // must not use the reserved space
	done    bool
	err     error
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

// transact runs the changes in one transaction. After the commit, it applies them to the
// memory.
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
		// The error is ignored: SQLite can have rolled back already, for example on a
		// full disk.
		_, _ = tx.exec(ctx, `ROLLBACK`)
		return err
	}
	w.memory.apply(tx.changes)
	if tx.freed {
		w.shrink(ctx)
	}
	return nil
}

// setSync makes the transaction wait for the disk, unless all requests are lazy.
func (w *writer) setSync(ctx context.Context, requests []*request) error {
	mode := "FULL"
	if !slices.ContainsFunc(requests, func(r *request) bool { return !r.lazy }) {
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

// minFree is the number of free pages that stay in the file for new entries. maxShrink
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

// tx is a transaction of the writer.
type tx struct {
	*writer
	changes []func(*memory)
	freed   bool // pages can have become free
	// stateBytes is what the transaction adds to memory.stateBytes.
	stateBytes map[string]int64
	// baselineBytes is what the transaction adds to memory.baselineBytes, and baselineSum the sum.
	baselineBytes map[string]int64
	baselineSum   int64
}

// addState adds bytes of groups to a tenant.
func (tx *tx) addState(tenant string, bytes int64) {
	if tx.stateBytes == nil {
		tx.stateBytes = map[string]int64{}
	}
	tx.stateBytes[tenant] += bytes
	tx.after(func(m *memory) { m.addState(tenant, bytes) })
}

// hasStateSpace reports whether the tenant has space for more bytes of open groups. One part
// in so many of the space stays free.
func (tx *tx) hasStateSpace(tenant string, more, leave int64) bool {
	used, limit := tx.memory.stateUsage(tenant, tx.maxPages*pageSize)
	return more <= 0 || used+tx.stateBytes[tenant]+more <= limit-limit/leave
}

func (tx *tx) run(ctx context.Context, requests []*request) error {
	for _, r := range requests {
		if err := r.change(ctx, tx); err != nil {
			return err
		}
	}
	if err := tx.checkReserve(ctx, requests); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `COMMIT`)
	return err
}

// checkReserve fails with ErrFull if a bounded request leaves less space than is reserved.
func (tx *tx) checkReserve(ctx context.Context, requests []*request) error {
	if tx.maxUsed == 0 || !slices.ContainsFunc(requests, func(r *request) bool { return r.bounded }) {
		return nil
	}
	var used int64
	if err := tx.row(ctx, selectUsedPages).Scan(&used); err != nil {
		return err
	}
	if used > tx.maxUsed {
		return ErrFull
	}
	return nil
}

// after registers a change to the memory, applied after the commit.
func (tx *tx) after(change func(*memory)) {
	tx.changes = append(tx.changes, change)
}

// exec runs a statement and returns how many rows it changed. Each statement is prepared
// once.
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

// scanner is a row of a result.
type scanner interface {
	Scan(dest ...any) error
}

// errorRow is the row of a query that failed.
type errorRow struct{ err error }

func (f errorRow) Scan(...any) error { return f.err }

// each calls fn for every row of a result and closes the result.
func each(rows *sql.Rows, err error, fn func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// micros returns a time as it is stored: microseconds since 1970, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timestamp scans a time that micros wrote.
type timestamp struct{ *time.Time }

func (s timestamp) Scan(value any) error {
	*s.Time = time.Time{}
	if micros := value.(int64); micros != 0 {
		*s.Time = time.UnixMicro(micros).UTC()
	}
	return nil
}

// jsonColumn is a column or a parameter of JSON.
type jsonColumn struct{ into any }

func (d jsonColumn) Scan(value any) error {
	return json.Unmarshal([]byte(value.(string)), d.into)
}

// Value implements driver.Valuer.
func (d jsonColumn) Value() (driver.Value, error) {
	data, err := json.Marshal(d.into)
	return string(data), err
}
