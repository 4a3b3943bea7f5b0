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
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// Store is an open outbox. All methods are safe for concurrent use.
//
// A write is durable when its method returns without an error. Commit and the methods
// that change the [State] survive a loss of power. Prepare, Finish and the methods
// that drop entries survive the end of the process only, until the next write of the
// first kind. Concurrent writes share a transaction.
type Store struct {
	*core
	// The parts of the store: see their types.
	Groups   Groups
	Statuses Statuses
	Streams  Streams
	States   States
	Parking  Parking
}

// The parts of a [Store]. Each has the methods for its rows. Commit changes the rows of all of them.
type (
	// Groups has the open groups of receivers.
	Groups struct{ *core }
	// Statuses has the numbers in the status of alarms and receivers.
	Statuses struct{ *core }
	// Streams has the streams of changes, with the baselines of their objects.
	Streams struct{ *core }
	// States has the states of objects that hold, of spec.states.
	States struct{ *core }
	// Parking has the occurrences that wait until their object can be read.
	Parking struct{ *core }
)

// core is what a Store and its parts have in common.
type core struct {
	shared
	file    *file.File
	readers *sql.DB // of the file
	clock   clock.PassiveClock
	// deciding is held from BeginDecision until it is done.
	deciding *semaphore.Weighted
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

// WithMaxBytes sets [file.Options.MaxBytes]. The reserve is for the writes that send messages and
// remove them. The default is no limit.
func WithMaxBytes(bytes int64) Option {
	return func(s *Store) { s.maxBytes = bytes }
}

// WithComposer sets the function that makes the payload of a group's message. Without it,
// such messages cannot be read.
func WithComposer(c Composer) Option {
	return func(s *Store) { s.compose = c }
}

// Open opens the outbox in dir: see [file.Open]. It is empty if its file is damaged.
func Open(ctx context.Context, dir string, opts ...Option) (*Store, error) {
	c := &core{clock: clock.RealClock{}, deciding: semaphore.NewWeighted(1)}
	s := &Store{core: c, Groups: Groups{c}, Statuses: Statuses{c}, Streams: Streams{c}, States: States{c}, Parking: Parking{c}}
	s.memory.groupSent = make(chan struct{}, 1)
	s.compose = noComposer
	for _, opt := range opts {
		opt(s)
	}
	var err error
	s.file, err = file.Open(ctx, dir, tables(), file.Options{MaxBytes: s.maxBytes, Load: s.load, Clock: s.clock})
	if err != nil {
		return nil, err
	}
	s.readers = s.file.Readers()
	return s, nil
}

// load reads what is kept in memory. It is called again if a damaged file is replaced.
func (s *core) load(ctx context.Context, db *sql.DB) error {
	s.memory.space = ledger.New(s.maxBytes)
	return s.memory.load(ctx, db)
}

// Damaged returns a channel that has an error after a read or write has found damage.
func (s *Store) Damaged() <-chan error { return s.file.Damaged() }

// Recovered returns the damaged file that Open set aside, or nil.
func (s *Store) Recovered() *file.Recovery { return s.file.Recovered() }

// Used returns the bytes of the file that are in use.
func (s *Store) Used(ctx context.Context) (int64, error) { return s.file.Used(ctx) }

// Close closes the store and releases its directory. It waits for a write that has begun.
// Later calls of other methods fail with [file.ErrClosed].
func (s *Store) Close() error { return s.file.Close() }

// change is the work of one caller in a transaction. It can run more than once, and only
// the last run counts. It must therefore set all its results again in each run.
type change func(ctx context.Context, tx *tx) error

// write runs a change in a transaction, which is durable when write returns. On a full disk,
// it uses the reserve.
func (s *core) write(ctx context.Context, what string, change change) error {
	return s.do(ctx, what, file.Reserved, change)
}

// makeSpace is write for changes that only make space for a Commit. They do not use the
// reserve, because a Commit cannot use what that frees.
func (s *core) makeSpace(ctx context.Context, what string, change change) error {
	return s.do(ctx, what, 0, change)
}

// writeBounded is write for changes that must not use the reserved space. They fail with
// file.ErrFull instead.
func (s *core) writeBounded(ctx context.Context, what string, change change) error {
	return s.do(ctx, what, file.Bounded, change)
}

// writeLazily runs a change in a transaction that does not wait for the disk. It becomes
// durable with the next transaction that does. On a full disk, it uses the reserve.
func (s *core) writeLazily(ctx context.Context, what string, change change) error {
	return s.do(ctx, what, file.Lazy|file.Reserved, change)
}

func (s *core) do(ctx context.Context, what string, mode file.Mode, change change) error {
	return s.file.Write(ctx, what, mode, func(ctx context.Context, of *file.Tx) error { return change(ctx, s.tx(of)) })
}

// read adds context to the error of a read. If the store is closed, the error is
// file.ErrClosed.
func (s *core) read(what string, err error) error { return s.file.Read(what, err) }

// shared is what a Store shares with its transactions. Only one of them runs at a time.
type shared struct {
	memory   memory
	maxBytes int64 // of the file; 0 is no limit
	// compose makes the payloads of messages of groups.
	compose Composer
	// countsForgotten: the counts in the file are incomplete until the next start. Only
	// transactions use it.
	countsForgotten bool
}

// tx is a transaction of the file, with what it changes in memory after the commit.
type tx struct {
	*file.Tx
	*shared
	changes []func(*memory)
	// space has what the transaction adds.
	space *ledger.Ledger
}

// tx returns the tx of a transaction, which changes share that wait at the same time.
func (s *shared) tx(of *file.Tx) *tx {
	if of.Data == nil {
		of.Data = &tx{Tx: of, shared: s, space: s.memory.space.Draft()}
	}
	return of.Data.(*tx)
}

// Committed applies the changes to the memory.
func (tx *tx) Committed() { tx.memory.apply(tx) }

// after registers a change to the memory, applied after the commit.
func (tx *tx) after(change func(*memory)) {
	tx.changes = append(tx.changes, change)
}

func (tx *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	return tx.Exec(ctx, query, args...)
}

func (tx *tx) row(ctx context.Context, query string, args ...any) file.Row {
	return tx.Row(ctx, query, args...)
}

func (tx *tx) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return tx.Query(ctx, query, args...)
}

var (
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
