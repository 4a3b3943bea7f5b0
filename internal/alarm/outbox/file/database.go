package file

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	_ "modernc.org/sqlite" // the driver
)

// Name is the name of the database in the data directory. The lock, SQLite's own files (-wal,
// -shm), the reserve and damaged files are beside it.
const Name = "outbox.db"

// pragmas apply to every connection.
//
// synchronous FULL syncs the WAL at each commit. With NORMAL, a node that loses power
// would forget which messages it had sent since the last checkpoint of the WAL, and send
// them again.
//
// busy_timeout is for an administrator's sqlite3. The file has one writer and never
// waits for a lock.
var pragmas = []string{
	"journal_mode(WAL)",
	"synchronous(FULL)",
	"busy_timeout(5000)",
	"temp_store(MEMORY)", // no files outside the data directory
}

// walLimit is the size in bytes to which the WAL is cut, so that a large transaction does
// not leave a large file. SQLite moves the WAL into the database at every 1,000 pages (4
// MB), its default.
const walLimit = 16 << 20

// maxReaders limits the connections that read. Each has a cache of 2 MB.
const maxReaders = 4

// openWriter opens the one connection that writes, and creates or migrates the tables.
func openWriter(ctx context.Context, path string, schema Schema, maxBytes int64) (*sql.DB, *sql.Conn, error) {
	// auto_vacuum comes first: it has an effect only before the first write to the file.
	pragmas := append([]string{"auto_vacuum(INCREMENTAL)"}, pragmas...)
	pragmas = append(pragmas, fmt.Sprintf("journal_size_limit(%d)", walLimit), fmt.Sprintf("max_page_count(%d)", maxBytes/PageSize))
	db, err := sql.Open("sqlite", dsn(path, "mode=rw", pragmas...))
	if err != nil {
		return nil, nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	if err := schema.migrate(ctx, conn); err != nil {
		return nil, nil, errors.Join(err, conn.Close(), db.Close())
	}
	return db, conn, nil
}

func openReaders(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, "mode=rw", append([]string{"query_only(1)"}, pragmas...)...))
	if err == nil {
		db.SetMaxOpenConns(maxReaders)
		db.SetMaxIdleConns(maxReaders)
	}
	return db, err
}

// create creates the file before SQLite does, to set its mode. SQLite uses the same mode
// for the files beside it.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// dsn returns a URI (https://www.sqlite.org/uri.html), because a path can contain any
// character. The driver reads _pragma.
func dsn(path, mode string, pragmas ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: mode + "&" + url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// lockDir locks the directory until the file is closed or the process ends. The locks of
// SQLite are not enough: they admit several processes, and two operators would send every
// message twice.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// check checks the whole file for damage, and its version. It changes neither the
// file nor its WAL. A connection that can write would do so when it is closed.
func check(ctx context.Context, path string, schema Schema) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "mode=ro"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	var version int
	if err := db.QueryRowContext(ctx, selectVersion).Scan(&version); err != nil {
		return err
	}
	if err := schema.check(version); err != nil {
		advice := "delete the files %s*, and alarms continue from the checkpoint in the cluster"
		if errors.Is(err, ErrNewerSchema) {
			advice = "install that release again, or " + advice
		}
		return fmt.Errorf("%w: "+advice, err, path)
	}
	var finding string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&finding); err != nil {
		return err
	}
	if finding != "ok" {
		return fmt.Errorf("%w: %s", ErrCorrupt, finding)
	}
	return nil
}

// View reads the file in dir, which another process can have open. It takes no lock and changes
// nothing. It calls read with one transaction, which shows one moment. It fails with
// fs.ErrNotExist if there is no file, and with ErrOlderSchema or ErrNewerSchema if another
// release wrote it.
func View(ctx context.Context, dir string, schema Schema, read func(context.Context, *sql.Tx) error) error {
	path := filepath.Join(dir, Name)
	if _, err := os.Stat(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path, readOnly(path), "query_only(1)", "busy_timeout(5000)", "temp_store(MEMORY)"))
	if err != nil {
		return err
	}
	if err = errors.Join(view(ctx, db, schema, read), db.Close()); err != nil {
		return fmt.Errorf("read the outbox in %s: %w", dir, classify(err))
	}
	return nil
}

// readOnly returns the options that open a file without a change. If there is no WAL, no
// process has the file open. immutable then keeps SQLite from creating files beside it.
func readOnly(path string) string {
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return "mode=ro&immutable=1"
	}
	return "mode=ro"
}

func view(ctx context.Context, db *sql.DB, schema Schema, read func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it changed nothing
	var version int
	if err := tx.QueryRowContext(ctx, selectVersion).Scan(&version); err != nil {
		return err
	}
	if err := schema.check(version); err != nil {
		return err
	}
	if version < schema.newest() {
		return fmt.Errorf("%w: its version is %d, and the version of this release is %d", ErrOlderSchema, version, schema.newest())
	}
	return read(ctx, tx)
}
