package outbox

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

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
