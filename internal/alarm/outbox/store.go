// Package outbox stores messages until they are delivered. It also stores the position in
// the stream of Events, the last count of each Event, and the state of thresholds and
// groups. All of it is in one embedded SQLite file, so that matches and position change
// in one transaction.
//
// The package knows neither Kubernetes nor receivers: a receiver is a string, and a
// message is bytes. It does not decide about retries, rates or ages, and stores no
// credentials.
//
// An [Entry] has these steps:
//
//	Commit       stores the entry together with the position
//	Prepare      binds entries of a receiver to one message with a fixed body and key
//	Finish       removes the message and its entries after delivery, or after it was given up
//
// After a crash between Prepare and Finish, [Store.Prepared] loads the same message
// again. Entries of a digest can be read for a day after their removal: see [Inspect].
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// FileName is the name of the database in the data directory. The lock, SQLite's own
// files (-wal, -shm), the reserve and damaged files are beside it.
const FileName = "outbox.db"

// Store is an open outbox. All methods are safe for concurrent use.
//
// A write is durable when its method returns without an error. Commit and the methods
// that change the [State] survive a loss of power. Prepare, Finish and the methods
// that drop entries survive the end of the process only, until the next write of the
// first kind. Concurrent writes share a transaction.
type Store struct {
	clock    clock.PassiveClock
	maxBytes int64 // of the file; 0 is no limit
	compose  Composer
	lock     *os.File
	writer   *writer
	readers  *sql.DB
	reserve  reserve
	memory   memory
	// deciding is held from BeginDecision until it is done.
	deciding  *semaphore.Weighted
	closed    atomic.Bool
	recovered *Recovery
	// damaged has the first error about damage, with space for one. It is nil before Open ends.
	damaged chan error
	// readUpTo is the time of ReadUpTo, in microseconds.
	readUpTo atomic.Int64
	// releasedAt is the time of the last Release, in microseconds, 0 if this process made none.
	releasedAt atomic.Int64
}

// Option changes how Open opens a Store.
type Option func(*Store)

// WithClock sets the clock for the times of attempts and the names of damaged files. The
// default is the real clock.
func WithClock(c clock.PassiveClock) Option {
	return func(s *Store) { s.clock = c }
}

// WithMaxBytes limits the size of the file. A write beyond the limit fails with ErrFull, as
// on a full disk. A sixteenth of the file, [maxReserve] at most, is reserved for the writes
// that send messages and remove them. The default is no limit.
func WithMaxBytes(bytes int64) Option {
	return func(s *Store) { s.maxBytes = bytes }
}

// WithComposer sets the function that makes the payload of a group's message. Without it,
// such messages cannot be read.
func WithComposer(c Composer) Option {
	return func(s *Store) { s.compose = c }
}

// Open opens the outbox in dir. It creates the directory with mode 0700 and the files
// with mode 0600 if they do not exist.
//
// A damaged file, or a file that is not a database, is renamed and replaced by an empty
// outbox: see [Store.Recovered]. Open fails with ErrLocked if another process has dir
// open. It fails with ErrNewerSchema or ErrOlderSchema, and changes nothing, if it cannot read
// the version of the file. It fails with ErrFull if there is no space.
func Open(ctx context.Context, dir string, opts ...Option) (*Store, error) {
	s := &Store{clock: clock.RealClock{}, compose: func(Group, []Entry, int64) ([]byte, error) { return nil, errNoComposer }}
	s.memory.groupSent = make(chan struct{}, 1)
	s.deciding = semaphore.NewWeighted(1)
	for _, opt := range opts {
		opt(s)
	}
	if err := s.open(ctx, dir); err != nil {
		return nil, fmt.Errorf("open the outbox in %s: %w", dir, errors.Join(err, s.Close()))
	}
	s.damaged = make(chan error, 1)
	return s, nil
}

// Damaged returns a channel that has an error after a read or write has found damage. The next
// Open sets the file aside.
func (s *Store) Damaged() <-chan error { return s.damaged }

// failed classifies an error, and reports damage.
func (s *Store) failed(err error) error {
	err = classify(err)
	if errors.Is(err, ErrCorrupt) {
		select {
		case s.damaged <- err:
		default:
		}
	}
	return err
}

func (s *Store) open(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if s.lock, err = lockDir(dir); err != nil {
		return err
	}
	s.reserve = reserve{path: filepath.Join(dir, ReserveName), size: reserved(s.maxBytes)}
	if err := s.reserve.open(); err != nil {
		return err
	}
	path := filepath.Join(dir, FileName)
	err = s.openDatabase(ctx, path)
	if errors.Is(err, ErrFull) && s.reserve.spend() {
		err = errors.Join(s.closeDatabase(), s.openDatabase(ctx, path))
	}
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	if s.recovered, err = s.setAside(path, err); err != nil {
		return err
	}
	return s.openDatabase(ctx, path)
}

// openDatabase checks, opens and migrates the file, and loads the values that are kept in
// memory.
func (s *Store) openDatabase(ctx context.Context, path string) (err error) {
	if err := errors.Join(create(path), checkFile(ctx, path)); err != nil {
		return classify(err)
	}
	if s.writer, err = openWriter(ctx, path, s.maxBytes, &s.memory, s.compose); err != nil {
		return classify(err)
	}
	if s.readers, err = openReaders(path); err != nil {
		return classify(err)
	}
	return classify(s.memory.load(ctx, s.readers))
}

// Close closes the store and releases its directory. It waits for a write that has begun.
// Later calls of other methods fail with ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	err := s.closeDatabase()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// closeDatabase closes the readers first. The last connection that closes moves the WAL
// into the database and removes it.
func (s *Store) closeDatabase() (err error) {
	if s.readers != nil {
		err = s.readers.Close()
	}
	if s.writer != nil {
		err = errors.Join(err, s.writer.close())
	}
	return err
}

// write runs a change in a transaction, which is durable when write returns. On a full disk,
// it uses the reserve.
func (s *Store) write(ctx context.Context, what string, change change) error {
	return s.writeReserved(ctx, what, change, false)
}

// makeSpace is write for changes that only make space for a Commit. They do not use the
// reserve, because a Commit cannot use what that frees.
func (s *Store) makeSpace(ctx context.Context, what string, change change) error {
	return s.do(ctx, what, &request{change: change})
}

// writeBounded is write for changes that must not use the reserved space. They fail with
// ErrFull instead.
func (s *Store) writeBounded(ctx context.Context, what string, change change) error {
	if err := s.reserve.restore(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return s.do(ctx, what, &request{change: change, bounded: true})
}

// writeLazily runs a change in a transaction that does not wait for the disk. It becomes
// durable with the next transaction that does. On a full disk, it uses the reserve.
func (s *Store) writeLazily(ctx context.Context, what string, change change) error {
	return s.writeReserved(ctx, what, change, true)
}

func (s *Store) writeReserved(ctx context.Context, what string, change change, lazy bool) error {
	err := s.do(ctx, what, &request{change: change, lazy: lazy})
	if errors.Is(err, ErrFull) && s.reserve.spend() {
		err = s.do(ctx, what, &request{change: change, lazy: lazy})
	}
	return err
}

func (s *Store) do(ctx context.Context, what string, r *request) error {
	if err := s.writer.do(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", what, s.failed(err))
	}
	return nil
}

// read adds context to the error of a read. If the store is closed, the error is
// ErrClosed.
func (s *Store) read(what string, err error) error {
	if err == nil {
		return nil
	}
	if s.closed.Load() {
		err = ErrClosed
	}
	return fmt.Errorf("%s: %w", what, s.failed(err))
}

var (
	// ErrFull reports that there is no space left. Nothing was changed. The same call
	// succeeds when there is space again.
	ErrFull = errors.New("no space left for the outbox: enlarge the volume or free space on it")
	// ErrLocked reports that another process, or another Store, has the directory open.
	ErrLocked = errors.New("the data directory is in use by another process: stop it or use another directory")
	// ErrClosed reports that the Store was closed.
	ErrClosed = errors.New("the outbox is closed")
	// ErrNewerSchema reports that a newer release wrote the file.
	ErrNewerSchema = errors.New("a newer release wrote the outbox")
	// ErrOlderSchema reports that an older release wrote the file. Inspect does not migrate it, and
	// Open migrates no file from before the first release.
	ErrOlderSchema = errors.New("an older release wrote the outbox")
	// ErrCorrupt reports that the file is damaged. The next Open sets it aside.
	ErrCorrupt = errors.New("the outbox is damaged")
	// ErrBackwards reports that an EventStep is before the committed position.
	ErrBackwards = errors.New("the position is before the committed position")
	// ErrUnfinished reports that the receiver has a prepared message that is not
	// finished.
	ErrUnfinished = errors.New("the receiver has a prepared message that is not finished")
	// ErrTooManyPrepared reports that the prepared messages for the receivers of a
	// namespace use too much space. The same call succeeds after some were finished.
	ErrTooManyPrepared = errors.New("the messages that are being sent for the receivers of the namespace use up their space: retrying after some are delivered")
	// ErrNothingPending reports that there is no entry to prepare.
	ErrNothingPending = errors.New("the receiver has no pending entries")
)

var errNoComposer = errors.New("the outbox was opened without a composer")

// classify adds the error of this package to an SQLite error that callers handle.
func classify(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return err
	}
	switch {
	case failure.Code()&primaryCode == sqlite3.SQLITE_FULL,
		failure.Code() == sqlite3.SQLITE_IOERR_SHMSIZE: // a full disk while the index of the WAL grows
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
