package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	_ "modernc.org/sqlite" // the driver
)

// migrations contains the scripts that build the schema. Script i migrates a file of
// version i to version i+1. After a release, never edit a script: append one.
var migrations = []string{
	`CREATE TABLE state (
		id           INTEGER PRIMARY KEY CHECK (id = 1),
		cluster      TEXT NOT NULL,
		epoch        TEXT NOT NULL,
		next_epoch   TEXT NOT NULL,
		position     INTEGER NOT NULL,
		time         INTEGER NOT NULL,
		newest       INTEGER NOT NULL,
		counts_known INTEGER NOT NULL,
		delivered    TEXT NOT NULL,
		history      TEXT NOT NULL
	) STRICT;
	INSERT INTO state VALUES (1, '', '', '', 0, 0, 0, 0, '{}', '');

	-- A message to send. AUTOINCREMENT never uses an id again. "Up to this id" therefore
	-- means the same entries as long as an attempt exists. entry_by_age covers what
	-- preparing a digest of 100,000 entries reads.
	CREATE TABLE entry (
		id         INTEGER PRIMARY KEY AUTOINCREMENT,
		receiver   TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		key        TEXT NOT NULL,
		position   INTEGER NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		payload    BLOB NOT NULL,
		group_id   TEXT NOT NULL DEFAULT ''
	) STRICT;
	CREATE UNIQUE INDEX entry_by_key ON entry (receiver, key);
	CREATE INDEX entry_by_age ON entry (receiver, id, created_at, count);
	CREATE INDEX entry_by_position ON entry (receiver, position, group_id);

	-- A prepared message. It contains the entries of its receiver up to the id in last.
	-- An acknowledged attempt stays until the last of its entries is removed.
	CREATE TABLE attempt (
		id           INTEGER PRIMARY KEY AUTOINCREMENT,
		receiver     TEXT NOT NULL UNIQUE,
		key          TEXT NOT NULL,
		body         BLOB NOT NULL,
		last         INTEGER NOT NULL,
		entries      INTEGER NOT NULL,
		count        INTEGER NOT NULL,
		oldest       INTEGER NOT NULL,
		first_tried  INTEGER NOT NULL,
		group_id     TEXT NOT NULL,
		acknowledged INTEGER NOT NULL DEFAULT 0
	) STRICT;

	-- The last known count of an Event. uid is a BLOB of 16 bytes if it is a UUID, else
	-- TEXT.
	CREATE TABLE event_count (
		uid      ANY PRIMARY KEY NOT NULL,
		count    INTEGER NOT NULL,
		position INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;

	-- The state of a threshold.
	CREATE TABLE window (
		id    TEXT PRIMARY KEY NOT NULL,
		alarm TEXT NOT NULL,
		until INTEGER NOT NULL,
		state BLOB NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX window_by_end ON window (until);

	-- An open group of a receiver.
	CREATE TABLE open_group (
		receiver  TEXT NOT NULL,
		id        TEXT NOT NULL,
		alarm     TEXT NOT NULL,
		by        BLOB NOT NULL,
		since     INTEGER NOT NULL,
		newest    INTEGER NOT NULL,
		due       INTEGER NOT NULL,
		total     INTEGER NOT NULL,
		released  INTEGER NOT NULL,
		resolved  INTEGER NOT NULL,
		first     INTEGER NOT NULL,
		reference TEXT NOT NULL,
		PRIMARY KEY (receiver, id)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX group_by_age ON open_group (newest);
	CREATE INDEX group_by_id ON open_group (id);

	-- An occurrence of a group. It waits until the message of the group is due, and stays
	-- as long as that message exists: a replay must find it, and another leader can have
	-- delivered a part of the message. since, total, first and resolved describe the group
	-- after this occurrence, because the group can continue before the message is made.
	CREATE TABLE held (
		receiver   TEXT NOT NULL,
		key        TEXT NOT NULL,
		group_id   TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		position   INTEGER NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		due        INTEGER NOT NULL,
		payload    BLOB NOT NULL,
		entry      INTEGER,
		since      INTEGER NOT NULL,
		total      INTEGER NOT NULL,
		first      INTEGER NOT NULL,
		resolved   INTEGER NOT NULL,
		PRIMARY KEY (receiver, key)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX held_by_due ON held (due) WHERE entry IS NULL;
	CREATE INDEX held_by_group ON held (receiver, group_id, due, position) WHERE entry IS NULL;
	CREATE INDEX held_by_position ON held (receiver, position);
	CREATE INDEX held_by_entry ON held (entry) WHERE entry IS NOT NULL;

	-- An entry of a digest that was sent or given up, under its former id.
	CREATE TABLE digested (
		id         INTEGER PRIMARY KEY,
		receiver   TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		payload    BLOB NOT NULL,
		digest     TEXT NOT NULL,
		delivered  INTEGER NOT NULL,
		ended_at   INTEGER NOT NULL
	) STRICT;
	CREATE INDEX digested_by_receiver ON digested (receiver, id);
	CREATE INDEX digested_by_age ON digested (ended_at);`,
}

// migrate migrates the file to the version of this release.
func migrate(ctx context.Context, conn *sql.Conn) error {
	var version int
	if err := conn.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		script := fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT", migrations[version], version+1)
		if _, err := conn.ExecContext(ctx, script); err != nil {
			return fmt.Errorf("migrate to version %d: %w", version+1, err)
		}
	}
	return nil
}

// checkVersion fails if a newer release wrote a file of the version.
func checkVersion(version int) error {
	if version > len(migrations) {
		return fmt.Errorf("%w: its version is %d, and the newest known version is %d", ErrNewerSchema, version, len(migrations))
	}
	return nil
}

// pragmas apply to every connection.
//
// synchronous FULL syncs the WAL at each commit. With NORMAL, a node that loses power
// would forget which messages it had sent since the last checkpoint of the WAL, and send
// them again.
//
// busy_timeout is for an administrator's sqlite3. The store has one writer and never
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

func openWriter(ctx context.Context, path string, limit int64, memory *memory) (*writer, error) {
	// auto_vacuum comes first: it has an effect only before the first write to the file.
	pragmas := append([]string{"auto_vacuum(INCREMENTAL)"}, pragmas...)
	pragmas = append(pragmas, fmt.Sprintf("journal_size_limit(%d)", walLimit), fmt.Sprintf("max_page_count(%d)", limit))
	db, err := sql.Open("sqlite", dsn(path, "mode=rw", pragmas...))
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := migrate(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(), db.Close())
	}
	return &writer{db: db, conn: conn, stmts: map[string]*sql.Stmt{}, memory: memory}, nil
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

// Recovery describes a damaged file that was set aside.
type Recovery struct {
	// Path is the new path of the file. Its WAL is beside it, if there was one.
	Path string
	// Cause describes the damage.
	Cause error
}

// Recovered returns the file that Open set aside, or nil.
func (s *Store) Recovered() *Recovery { return s.recovered }

// maxSetAside limits the damaged files that are kept. The newest are kept.
const maxSetAside = 3

const setAsideInfix = ".corrupt-"

// setAside renames the damaged file and its WAL, so that an administrator can still open
// both. It removes the index of the WAL, which only an open connection uses.
func (s *Store) setAside(path string, cause error) (*Recovery, error) {
	if err := s.closeDatabase(); err != nil {
		// The damage can make closing fail. The file descriptors are closed anyway.
		cause = errors.Join(cause, err)
	}
	aside := path + setAsideInfix + s.clock.Now().UTC().Format("20060102T150405.000000000")
	if err := os.Rename(path, aside); err != nil {
		return nil, err
	}
	if err := ignoreMissing(os.Rename(path+"-wal", aside+"-wal")); err != nil {
		return nil, err
	}
	if err := ignoreMissing(os.Remove(path + "-shm")); err != nil {
		return nil, err
	}
	return &Recovery{Path: aside, Cause: cause}, prune(path)
}

// prune removes all but the newest damaged files. ReadDir sorts their names by age.
func prune(path string) error {
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	prefix := filepath.Base(path) + setAsideInfix
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool {
		return !strings.HasPrefix(f.Name(), prefix) || strings.HasSuffix(f.Name(), "-wal")
	})
	for len(files) > maxSetAside {
		oldest := filepath.Join(filepath.Dir(path), files[0].Name())
		err = errors.Join(err, os.Remove(oldest), ignoreMissing(os.Remove(oldest+"-wal")))
		files = files[1:]
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkFile checks the whole file for damage, and its version. It changes neither the
// file nor its WAL. A connection that can write would do so when it is closed.
func checkFile(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", dsn(path, "mode=ro"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if err := checkVersion(version); err != nil {
		return err
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
