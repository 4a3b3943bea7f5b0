// Package file keeps an outbox in one SQLite file. It does not know what is stored: it gets the
// tables as a [Schema], and runs changes in transactions.
//
// The file has a maximum size, and a reserve for the changes that free space. Only one process
// can open it. A damaged file is set aside, and a new one replaces it.
package file

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"k8s.io/utils/clock"
)

// File is an open file. All methods are safe for concurrent use.
type File struct {
	path    string
	schema  Schema
	options Options
	lock    *os.File
	writer  *writer
	readers *sql.DB
	reserve reserve

	closed    atomic.Bool
	recovered *Recovery
	// damaged has the first error about damage, with space for one. It is nil before Open ends.
	damaged chan error
}

// Options are how a file is opened.
type Options struct {
	// MaxBytes limits the size of the file. A write beyond the limit fails with ErrFull, as
	// on a full disk. A sixteenth of the file, 16 MiB at most, is reserved for changes that are
	// not [Bounded]. 0 is no limit, and no reserve.
	MaxBytes int64
	// Load reads what is kept in memory. It is called again with an empty file if it finds damage.
	Load func(context.Context, *sql.DB) error
	// Clock is for the names of damaged files.
	Clock clock.PassiveClock
}

// Open opens the file in dir. It creates the directory with mode 0700 and the files with mode
// 0600 if they do not exist.
//
// A damaged file, or a file that is not a database, is renamed and replaced by an empty one: see
// [File.Recovered]. Open fails with ErrLocked if another process has dir open. It fails with
// ErrNewerSchema or ErrOlderSchema, and changes nothing, if it cannot read the version of the
// file. It fails with ErrFull if there is no space.
func Open(ctx context.Context, dir string, schema Schema, options Options) (*File, error) {
	f := &File{
		path: filepath.Join(dir, Name), schema: schema, options: options,
		reserve: reserve{path: filepath.Join(dir, ReserveName), size: reserved(options.MaxBytes)},
	}
	if err := f.open(ctx, dir); err != nil {
		return nil, fmt.Errorf("open the outbox in %s: %w", dir, errors.Join(err, f.Close()))
	}
	f.damaged = make(chan error, 1)
	return f, nil
}

func (f *File) open(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if f.lock, err = lockDir(dir); err != nil {
		return err
	}
	if err := f.reserve.open(); err != nil {
		return err
	}
	err = f.openDatabase(ctx)
	if errors.Is(err, ErrFull) && f.reserve.spend() {
		err = errors.Join(f.closeDatabase(), f.openDatabase(ctx))
	}
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	cause := errors.Join(err, f.closeDatabase()) // the damage can make closing fail: the file descriptors are closed anyway
	aside, err := setAside(f.path, f.options.Clock.Now())
	if err != nil {
		return err
	}
	f.recovered = &Recovery{Path: aside, Cause: cause}
	return f.openDatabase(ctx)
}

// openDatabase checks, opens and migrates the file, and loads the values that are kept in
// memory.
func (f *File) openDatabase(ctx context.Context) error {
	if err := errors.Join(create(f.path), check(ctx, f.path, f.schema)); err != nil {
		return classify(err)
	}
	db, conn, err := openWriter(ctx, f.path, f.schema, f.options.MaxBytes)
	if err != nil {
		return classify(err)
	}
	f.writer = &writer{db: db, conn: conn, stmts: map[string]*sql.Stmt{}, maxUsed: usable(f.options.MaxBytes)}
	if f.readers, err = openReaders(f.path); err != nil {
		return classify(err)
	}
	return classify(f.options.Load(ctx, f.readers))
}

// Close closes the file and releases its directory. It waits for a write that has begun.
// Later writes and reads fail with ErrClosed.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	err := f.closeDatabase()
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}

// closeDatabase closes the readers first. The last connection that closes moves the WAL
// into the database and removes it.
func (f *File) closeDatabase() (err error) {
	if f.readers != nil {
		err = f.readers.Close()
	}
	if f.writer != nil {
		err = errors.Join(err, f.writer.close())
	}
	return err
}

// Recovered returns the file that Open set aside, or nil.
func (f *File) Recovered() *Recovery { return f.recovered }

// Damaged returns a channel that has an error after a read or write has found damage. The next
// Open sets the file aside.
func (f *File) Damaged() <-chan error { return f.damaged }

// failed classifies an error, and reports damage.
func (f *File) failed(err error) error {
	err = classify(err)
	if errors.Is(err, ErrCorrupt) {
		select {
		case f.damaged <- err:
		default:
		}
	}
	return err
}

// Write runs a change in a transaction. The change can run more than once, and only the last
// run counts: it must set all its results again in each run. An error begins with what is done.
func (f *File) Write(ctx context.Context, what string, mode Mode, change func(context.Context, *Tx) error) error {
	err := f.write(ctx, mode, change)
	if mode&Reserved != 0 && errors.Is(err, ErrFull) && f.reserve.spend() {
		err = f.write(ctx, mode, change)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (f *File) write(ctx context.Context, mode Mode, change func(context.Context, *Tx) error) error {
	if mode&Bounded != 0 {
		if err := f.reserve.restore(); err != nil {
			return err
		}
	}
	if err := f.writer.do(ctx, &request{change: change, mode: mode}); err != nil {
		return f.failed(err)
	}
	return nil
}

// Readers returns the connections that read.
func (f *File) Readers() *sql.DB { return f.readers }

// Read adds what is done to the error of a read. If the file is closed, the error is ErrClosed.
func (f *File) Read(what string, err error) error {
	if err == nil {
		return nil
	}
	if f.closed.Load() {
		err = ErrClosed
	}
	return fmt.Errorf("%s: %w", what, f.failed(err))
}

// Used returns the bytes of the file that are in use.
func (f *File) Used(ctx context.Context) (used int64, err error) {
	err = f.readers.QueryRowContext(ctx, SelectUsed).Scan(&used)
	return used, f.Read("read the size of the outbox", err)
}

// Usable returns how many bytes can be used without the reserve, 0 if there is no limit.
func (f *File) Usable() int64 { return usable(f.options.MaxBytes) }

// NearlyFull reports whether more than seven eighths of the usable bytes are in use.
func (f *File) NearlyFull(ctx context.Context) (bool, error) {
	if f.options.MaxBytes == 0 {
		return false, nil
	}
	used, err := f.Used(ctx)
	return used > f.Usable()*7/8, err
}

// minFreeBytes is the free space of a disk on which a write is likely to succeed.
const minFreeBytes = 32 << 20

// CheckSpace fails with ErrFull if a write is likely to fail, because the disk or the file is nearly full.
func (f *File) CheckSpace(ctx context.Context) error {
	if err := checkDisk(filepath.Dir(f.path), minFreeBytes); err != nil {
		return err
	}
	full, err := f.NearlyFull(ctx)
	if full {
		err = fmt.Errorf("%w: more than %d bytes are used", ErrFull, f.Usable()*7/8)
	}
	return err
}
