// Package ledger is the durable memory of delivery: the outbox of what is still
// to be sent, the feed's position, the last count of each Event and what thresholds
// remember, in one embedded SQLite file, so that what was matched and how far the
// feed was read change in one transaction.
//
// It knows nothing of Kubernetes or of receivers: a receiver is a string, a
// message is bytes. It decides nothing about retries, rates or ages, and holds
// no credential: what it stores is what was matched and what was rendered of it.
//
// The life of an [Entry]: [Ledger.Commit] stores it together with the feed's
// position; [Ledger.Freeze] binds the oldest entries of a receiver to one
// message, before it is first sent; [Ledger.Settle] removes message and entries
// once it was delivered or given up, and keeps for a day what a digest told of.
// Between the last two a crash leaves the message as it was, to be sent again with the
// same body and the same key. [Look] shows all of it to others, beside the one process
// that writes.
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"k8s.io/utils/clock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// FileName is the name of the database in the data directory. SQLite's own
// files (-wal, -shm), the lock and what was set aside lie beside it.
const FileName = "ledger.db"

// Ledger is an open ledger. All methods are safe for concurrent use; a write is
// durable when its method returns without error: that of the feed and of terms
// ([Ledger.Commit] and the like) against the loss of power too, that of a message
// ([Ledger.Freeze], [Ledger.Settle], the Drop methods) against the death of the
// process only, until the next one of the former kind. Writes that are asked for at the
// same time share a transaction.
type Store struct {
	clock     clock.PassiveClock
	limit     int64 // of pages; 0 is none
	lock      *os.File
	writer    *writer
	readers   *sql.DB
	memory    memory
	closed    atomic.Bool
	recovered *Recovery
}

// Option changes how a Ledger is opened.
type Option func(*Store)

// WithClock sets the clock that stamps attempts and files set aside; by default
// the real one.
func WithClock(c clock.PassiveClock) Option {
	return func(l *Store) { l.clock = c }
}

// WithMaxPages limits the file to that many pages of 4 KiB; beyond it a write
// fails with ErrFull, as it does on a full disk. By default there is no limit.
func WithMaxPages(pages int64) Option {
	return func(l *Store) { l.limit = pages }
}

// Open opens the ledger in dir, and creates both where they are missing: the
// directory with mode 0700, the files with 0600.
//
// A file that is no database, or a damaged one, is set aside under another name
// and an empty ledger opened in its place: [Ledger.Recovered] tells. Open fails
// with ErrLocked while another process has dir open, with ErrNewerSchema on a
// newer release's file, which it leaves as it is, and with ErrFull.
func Open(ctx context.Context, dir string, opts ...Option) (*Store, error) {
	l := &Store{clock: clock.RealClock{}}
	for _, opt := range opts {
		opt(l)
	}
	if err := l.open(ctx, dir); err != nil {
		return nil, fmt.Errorf("opening the ledger in %s: %w", dir, errors.Join(err, l.Close()))
	}
	return l, nil
}

func (l *Store) open(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if l.lock, err = lockDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, FileName)
	err = l.openDatabase(ctx, path)
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	if l.recovered, err = l.setAside(path, err); err != nil {
		return err
	}
	return l.openDatabase(ctx, path)
}

// openDatabase inspects, opens and migrates the file, and loads what is held in memory.
func (l *Store) openDatabase(ctx context.Context, path string) (err error) {
	if err := errors.Join(create(path), checkFile(ctx, path)); err != nil {
		return classify(err)
	}
	if l.writer, err = openWriter(ctx, path, l.limit, &l.memory); err != nil {
		return classify(err)
	}
	if l.readers, err = openReaders(path); err != nil {
		return classify(err)
	}
	if err := l.memory.load(ctx, l.readers); err != nil {
		return classify(err)
	}
	return classify(l.acknowledgeRest(ctx))
}

// Close closes the ledger and lets go of its directory. It waits for a write
// that has begun; a later call of any other method fails with ErrClosed.
func (l *Store) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	err := l.closeDatabase()
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// closeDatabase closes the readers first: the last connection to close moves the
// WAL into the database and removes it.
func (l *Store) closeDatabase() (err error) {
	if l.readers != nil {
		err = l.readers.Close()
	}
	if l.writer != nil {
		err = errors.Join(err, l.writer.close())
	}
	return err
}

// write runs change in a transaction, durable when it returns.
func (l *Store) write(ctx context.Context, what string, change change) error {
	return l.do(ctx, what, &request{change: change})
}

// writeLazily runs change in a transaction that does not wait for the disk: it is
// durable with the next one that does.
func (l *Store) writeLazily(ctx context.Context, what string, change change) error {
	return l.do(ctx, what, &request{change: change, lazy: true})
}

func (l *Store) do(ctx context.Context, what string, r *request) error {
	if err := l.writer.do(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", what, classify(err))
	}
	return nil
}

// read explains the error of a read: of a closed Ledger it is ErrClosed.
func (l *Store) read(what string, err error) error {
	if err == nil {
		return nil
	}
	if l.closed.Load() {
		err = ErrClosed
	}
	return fmt.Errorf("%s: %w", what, classify(err))
}

var (
	// ErrFull says that there is no space for what was to be written. Nothing was
	// changed; the same call works once there is space again.
	ErrFull = errors.New("no space left for the ledger")
	// ErrLocked says that another process, or another Ledger, has the directory open.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrClosed says that the Ledger was closed.
	ErrClosed = errors.New("ledger is closed")
	// ErrNewerSchema says that the file was written by a newer release.
	ErrNewerSchema = errors.New("ledger was written by a newer release")
	// ErrOlderSchema says that the file was written by an older release, which a reader
	// does not bring to this one's form.
	ErrOlderSchema = errors.New("ledger was written by an older release")
	// ErrCorrupt says that the file is damaged. The next Open sets it aside.
	ErrCorrupt = errors.New("ledger is corrupt")
	// ErrBackwards says that a Batch lies before the position already committed.
	ErrBackwards = errors.New("position lies before the one committed")
	// ErrFrozen says that the receiver has an attempt that is not settled.
	ErrUnacknowledged = errors.New("receiver has an unsettled attempt")
	// ErrNothingPending says that there is no entry to freeze.
	ErrNothingPending = errors.New("receiver has nothing pending")
)

// classify adds the package's own error to one of SQLite's that a caller can act on.
func classify(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return err
	}
	switch {
	case failure.Code()&primaryCode == sqlite3.SQLITE_FULL,
		failure.Code() == sqlite3.SQLITE_IOERR_SHMSIZE: // a full disk, met while growing the WAL's index
		return fmt.Errorf("%w: %w", ErrFull, err)
	case failure.Code()&primaryCode == sqlite3.SQLITE_CORRUPT,
		failure.Code()&primaryCode == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// primaryCode masks the primary result code of an extended one
// (https://www.sqlite.org/rescode.html).
const primaryCode = 0xff
