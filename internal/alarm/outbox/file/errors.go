package file

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrFull reports that there is no space left. Nothing was changed. The same call
	// succeeds when there is space again.
	ErrFull = errors.New("no space left for the outbox: enlarge the volume or free space on it")
	// ErrLocked reports that another process, or another File, has the directory open.
	ErrLocked = errors.New("the data directory is in use by another process: stop it or use another directory")
	// ErrClosed reports that the File was closed.
	ErrClosed = errors.New("the outbox is closed")
	// ErrNewerSchema reports that a newer release wrote the file.
	ErrNewerSchema = errors.New("a newer release wrote the outbox")
	// ErrOlderSchema reports that an older release wrote the file. View does not migrate it, and
	// Open migrates no file from before the first release.
	ErrOlderSchema = errors.New("an older release wrote the outbox")
	// ErrCorrupt reports that the file is damaged. The next Open sets it aside.
	ErrCorrupt = errors.New("the outbox is damaged")
)

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
