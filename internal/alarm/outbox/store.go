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
