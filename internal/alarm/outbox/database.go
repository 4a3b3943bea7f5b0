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

// migrations bring a file from the version of their index to the next one;
// the number of them is the version that this release knows. They are never
// edited once released: a change is a new one.
var migrations = []string{
	`CREATE TABLE state (
		id         INTEGER PRIMARY KEY CHECK (id = 1),
		cluster    TEXT NOT NULL,
		epoch      TEXT NOT NULL,
		next_epoch TEXT NOT NULL,
		position   INTEGER NOT NULL,
		time       INTEGER NOT NULL,
		counted    INTEGER NOT NULL,
		floors     TEXT NOT NULL,
		history    TEXT NOT NULL
	) STRICT;
	INSERT INTO state VALUES (1, '', '', '', 0, 0, 0, '{}', '');

	-- AUTOINCREMENT: an id is never used again, so that "up to this id" means the
	-- same entries for as long as an attempt lives. What freezing 100,000 entries
	-- reads of them is in entry_by_age.
	CREATE TABLE entry (
		id         INTEGER PRIMARY KEY AUTOINCREMENT,
		receiver   TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		key        TEXT NOT NULL,
		position   INTEGER NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		payload    BLOB NOT NULL
	) STRICT;
	CREATE UNIQUE INDEX entry_by_key ON entry (receiver, key);
	CREATE INDEX entry_by_age ON entry (receiver, id, created_at, count);
	CREATE INDEX entry_by_position ON entry (receiver, position);

	-- An attempt stands for the entries of its receiver up to the id in last. A
	-- settled one is there only until the last of its entries is removed.
	CREATE TABLE attempt (
		id          INTEGER PRIMARY KEY AUTOINCREMENT,
		receiver    TEXT NOT NULL UNIQUE,
		key         TEXT NOT NULL,
		body        BLOB NOT NULL,
		last        INTEGER NOT NULL,
		entries     INTEGER NOT NULL,
		count       INTEGER NOT NULL,
		oldest      INTEGER NOT NULL,
		first_tried INTEGER NOT NULL,
		settled     INTEGER NOT NULL DEFAULT 0
	) STRICT;

	-- uid is a BLOB of 16 bytes where it is a UUID, else TEXT.
	CREATE TABLE event_count (
		uid      ANY PRIMARY KEY NOT NULL,
		count    INTEGER NOT NULL,
		position INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;`,

	`ALTER TABLE state ADD COLUMN newest INTEGER NOT NULL DEFAULT 0;

	CREATE TABLE window (
		id    TEXT PRIMARY KEY NOT NULL,
		alarm TEXT NOT NULL,
		until INTEGER NOT NULL,
		state BLOB NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE INDEX window_by_end ON window (until);`,

	// What is remembered of an open group of a receiver.
	`CREATE TABLE grp (
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
	CREATE INDEX grp_by_age ON grp (newest);
	CREATE INDEX grp_by_id ON grp (id);

	-- What waits in groups. Once its message is made it stays as long as that does: a
	-- replay must know it, and another leader may have served a part of it. What is said
	-- of the group is as it was with this part: the group may go on before it is told.
	CREATE TABLE held (
		receiver   TEXT NOT NULL,
		key        TEXT NOT NULL,
		grp        TEXT NOT NULL,
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
	CREATE INDEX held_by_group ON held (receiver, grp, due, position) WHERE entry IS NULL;
	CREATE INDEX held_by_position ON held (receiver, position);
	CREATE INDEX held_by_entry ON held (entry) WHERE entry IS NOT NULL;
	ALTER TABLE entry ADD COLUMN grp TEXT NOT NULL DEFAULT '';
	DROP INDEX entry_by_position;
	CREATE INDEX entry_by_position ON entry (receiver, position, grp);
	ALTER TABLE attempt ADD COLUMN grp TEXT NOT NULL DEFAULT '';`,

	// What was told of in digests, under the ids that the entries had.
	`CREATE TABLE digested (
		id         INTEGER PRIMARY KEY,
		receiver   TEXT NOT NULL,
		alarm      TEXT NOT NULL,
		count      INTEGER NOT NULL,
		created_at INTEGER NOT NULL,
		payload    BLOB NOT NULL,
		digest     TEXT NOT NULL,
		delivered  INTEGER NOT NULL,
		settled_at INTEGER NOT NULL
	) STRICT;
	CREATE INDEX digested_by_receiver ON digested (receiver, id);
	CREATE INDEX digested_by_age ON digested (settled_at);`,
}

// migrate brings the file to the version that this release knows.
func migrate(ctx context.Context, conn *sql.Conn) error {
	var version int
	if err := conn.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		script := fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT", migrations[version], version+1)
		if _, err := conn.ExecContext(ctx, script); err != nil {
			return fmt.Errorf("migrating to version %d: %w", version+1, err)
		}
	}
	return nil
}

// pragmas hold for every connection.
//
// synchronous FULL syncs the WAL at each commit: NORMAL would survive the death
// of the process too, but a node that loses power would forget what it had sent
// since the last checkpoint, and send it all again.
//
// busy_timeout is for an administrator's sqlite3; the ledger itself never waits
// for a lock, for it has one writer.
var pragmas = []string{
	"journal_mode(WAL)",
	"synchronous(FULL)",
	"busy_timeout(5000)",
	"temp_store(MEMORY)", // no file outside the data directory
}

// walLimit is what the WAL is cut to, in bytes, so that one great transaction
// does not leave a great file. It is moved into the database at every 1,000 pages
// (SQLite's default), 4 MB.
const walLimit = 16 << 20

// maxReaders bounds the connections that read; each has a cache of 2 MB.
const maxReaders = 4

func openWriter(ctx context.Context, path string, limit int64, memory *memory) (*writer, error) {
	// auto_vacuum comes first: it must be set before an empty file is written to.
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

// create makes the file with its mode before SQLite does; SQLite gives the same
// to the files that it puts beside it.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// dsn is a URI (https://www.sqlite.org/uri.html), for a path may hold anything;
// _pragma is the driver's.
func dsn(path, mode string, pragmas ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: mode + "&" + url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// lockDir takes the directory for this process until the file is closed or the
// process ends, however it ends. A lock of its own, beside SQLite's: those admit
// several processes, and two managers would send everything twice.
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

// Recovery tells of a damaged file that was set aside.
type Recovery struct {
	// Path is where the file is now; its WAL, if it had one, is beside it.
	Path string
	// Cause is what was found wrong with it.
	Cause error
}

// Recovered returns what was set aside when this ledger was opened, or nil.
func (l *Store) Recovered() *Recovery { return l.recovered }

// maxSetAside is how many damaged files are kept: the newest.
const maxSetAside = 3

const setAsideInfix = ".corrupt-"

// setAside renames the damaged file and its WAL, so that an administrator can
// still open the pair, and removes the WAL's index, which is of no use without
// a process that has it open.
func (l *Store) setAside(path string, cause error) (*Recovery, error) {
	if err := l.closeDatabase(); err != nil {
		// The damage itself may keep SQLite from closing cleanly; the file
		// descriptors are gone either way, and the cause is already known.
		cause = errors.Join(cause, err)
	}
	aside := path + setAsideInfix + l.clock.Now().UTC().Format("20060102T150405.000000000")
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

// prune removes all but the newest files set aside; their names, as ReadDir lists them, sort by age.
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

// inspect reads the whole file for damage, and its version. It changes neither
// the file nor its WAL, as a connection that may write does when it is closed.
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
	if version > len(migrations) {
		return fmt.Errorf("%w: its version is %d, the newest known is %d", ErrNewerSchema, version, len(migrations))
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
