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

	// Script 2 stores a payload once for all receivers of an occurrence, and counts bytes.
	`ALTER TABLE entry ADD COLUMN content INTEGER; -- NULL for a group's message: held has its parts
	ALTER TABLE entry ADD COLUMN account INTEGER;
	ALTER TABLE held ADD COLUMN content INTEGER;
	ALTER TABLE held ADD COLUMN account INTEGER;

	-- The bytes that wait for a budget (receiver is empty), and for a receiver within it. The
	-- first row is the sum of all budgets.
	CREATE TABLE account (
		id       INTEGER PRIMARY KEY,
		budget   TEXT NOT NULL,
		receiver TEXT NOT NULL,
		bytes    INTEGER NOT NULL,
		UNIQUE (budget, receiver)
	) STRICT;
	CREATE INDEX account_unused ON account (id) WHERE bytes = 0;

	-- What an alarm says about an occurrence. refs is the number of rows that use it. bytes
	-- includes those rows. by contains the values of the group.
	CREATE TABLE content (
		id      INTEGER PRIMARY KEY,
		account INTEGER NOT NULL,
		refs    INTEGER NOT NULL,
		bytes   INTEGER NOT NULL,
		by      BLOB NOT NULL,
		data    BLOB NOT NULL
	) STRICT;

	INSERT INTO account (id, budget, receiver, bytes) VALUES (1, '*', '*', 0);
	CREATE TEMP TABLE old (id INTEGER PRIMARY KEY, entry INTEGER, receiver TEXT, key TEXT, budget TEXT, by BLOB, data BLOB);
	INSERT INTO old (entry, receiver, budget, by, data)
		SELECT id, receiver, rtrim(alarm, replace(alarm, '/', '')), x'', payload FROM entry WHERE group_id = '';
	INSERT INTO old (receiver, key, budget, by, data)
		SELECT receiver, key, rtrim(alarm, replace(alarm, '/', '')),
			coalesce((SELECT by FROM open_group g WHERE g.receiver = held.receiver AND g.id = group_id), x''), payload FROM held;
	INSERT INTO account (budget, receiver, bytes) SELECT budget, '', sum(length(data) + 512) FROM old GROUP BY budget;
	INSERT INTO account (budget, receiver, bytes) SELECT budget, receiver, sum(length(data) + 512) FROM old GROUP BY budget, receiver;
	INSERT INTO content (id, account, refs, bytes, by, data)
		SELECT id, (SELECT id FROM account a WHERE a.budget = old.budget AND a.receiver = ''), 1, length(data) + 512, by, data FROM old;
	UPDATE account SET bytes = (SELECT coalesce(sum(bytes), 0) FROM content) WHERE id = 1;
	UPDATE entry SET content = old.id, account = (SELECT id FROM account a WHERE a.budget = old.budget AND a.receiver = old.receiver)
		FROM old WHERE old.entry = entry.id;
	UPDATE held SET content = old.id, account = (SELECT id FROM account a WHERE a.budget = old.budget AND a.receiver = old.receiver)
		FROM old WHERE old.key = held.key AND old.receiver = held.receiver;
	DROP TABLE old;
	ALTER TABLE entry DROP COLUMN payload;
	ALTER TABLE held DROP COLUMN payload;
	ALTER TABLE open_group DROP COLUMN by;
	DROP INDEX held_by_entry;
	CREATE INDEX held_by_entry ON held (entry, position, key) WHERE entry IS NOT NULL;
	UPDATE digested SET payload = x'' WHERE length(payload) > 4096;

	-- However a row is deleted, its bytes are subtracted, and the content that no row uses
	-- is deleted.
	CREATE TRIGGER entry_deleted AFTER DELETE ON entry WHEN OLD.content IS NOT NULL BEGIN
		UPDATE account SET bytes = bytes - (SELECT bytes FROM content WHERE id = OLD.content) WHERE id = OLD.account;
		UPDATE content SET refs = refs - 1 WHERE id = OLD.content;
		DELETE FROM content WHERE id = OLD.content AND refs = 0;
	END;
	CREATE TRIGGER held_deleted AFTER DELETE ON held BEGIN
		UPDATE account SET bytes = bytes - (SELECT bytes FROM content WHERE id = OLD.content) WHERE id = OLD.account;
		UPDATE content SET refs = refs - 1 WHERE id = OLD.content;
		DELETE FROM content WHERE id = OLD.content AND refs = 0;
	END;
	CREATE TRIGGER content_deleted AFTER DELETE ON content BEGIN
		UPDATE account SET bytes = bytes - OLD.bytes WHERE id IN (1, OLD.account);
	END;`,

	// Script 3 counts the bytes of groups and thresholds, by budget.
	`ALTER TABLE open_group ADD COLUMN budget TEXT NOT NULL DEFAULT '';
	ALTER TABLE open_group ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE window ADD COLUMN budget TEXT NOT NULL DEFAULT '';
	ALTER TABLE window ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
	UPDATE open_group SET budget = rtrim(alarm, replace(alarm, '/', '')),
		bytes = 512 + 8 * length(receiver) + 2 * length(alarm) + 2 * length(reference);
	UPDATE window SET budget = rtrim(alarm, replace(alarm, '/', '')), bytes = 512 + 2 * length(alarm) + 2 * length(state);`,

	// Script 4 keeps the numbers in the status of alarms and receivers.
	`CREATE TABLE status_count (
		subject       TEXT PRIMARY KEY NOT NULL,
		uid           TEXT NOT NULL,
		matched       INTEGER NOT NULL,
		delivered     INTEGER NOT NULL,
		suppressed    INTEGER NOT NULL,
		dropped       INTEGER NOT NULL,
		unresolved    INTEGER NOT NULL,
		last_match    INTEGER NOT NULL,
		last_delivery INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;`,

	parkedScript,

	// Script 6 adds the ends of groups that become quiet. They wait like occurrences, without
	// a count. ending is the key of the end that waits.
	`ALTER TABLE held ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE open_group ADD COLUMN ending TEXT NOT NULL DEFAULT '';
	DROP INDEX held_by_due;
	CREATE INDEX held_by_due ON held (due, ends) WHERE entry IS NULL;
	CREATE INDEX held_of_message ON held (receiver, group_id) WHERE entry IS NOT NULL;
	CREATE INDEX parked_by_budget ON parked (budget);`,

	// Script 7 divides the entries of a receiver into lanes. An attempt of the main lane
	// contains all its entries up to the id in last. An attempt of another lane contains the
	// one entry with that id. newest is the time of the newest of the entries.
	`ALTER TABLE entry ADD COLUMN subject INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE entry ADD COLUMN aside INTEGER NOT NULL DEFAULT 0; -- 1: in the lane of its subject
	DROP INDEX entry_by_age;
	CREATE INDEX entry_by_age ON entry (receiver, id, created_at, count, subject) WHERE aside = 0;
	DROP INDEX entry_by_position;
	CREATE INDEX entry_by_position ON entry (receiver, position, group_id) WHERE aside = 0;
	CREATE INDEX entry_aside ON entry (receiver, subject, id, position, key, group_id) WHERE aside = 1;
	ALTER TABLE attempt RENAME TO old_attempt;
	CREATE TABLE attempt (
		id           INTEGER PRIMARY KEY AUTOINCREMENT,
		receiver     TEXT NOT NULL,
		lane         INTEGER NOT NULL,
		key          TEXT NOT NULL,
		body         BLOB NOT NULL,
		last         INTEGER NOT NULL,
		entries      INTEGER NOT NULL,
		count        INTEGER NOT NULL,
		oldest       INTEGER NOT NULL,
		newest       INTEGER NOT NULL,
		first_tried  INTEGER NOT NULL,
		group_id     TEXT NOT NULL,
		acknowledged INTEGER NOT NULL DEFAULT 0,
		UNIQUE (receiver, lane)
	) STRICT;
	INSERT INTO attempt SELECT id, receiver, -1, key, body, last, entries, count, oldest,
		coalesce((SELECT max(created_at) FROM entry WHERE entry.receiver = old_attempt.receiver AND entry.id <= last), oldest),
		first_tried, group_id, acknowledged FROM old_attempt;
	DROP TABLE old_attempt;`,

	// Script 8 marks the attempts whose entries are a message each, sent with one request.
	`ALTER TABLE attempt ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;`,

	repeatedScript,

	// Script 10 counts what thresholds and mutes suppress separately.
	`ALTER TABLE status_count RENAME COLUMN suppressed TO suppressed_by_threshold;
	ALTER TABLE status_count ADD COLUMN suppressed_by_mute INTEGER NOT NULL DEFAULT 0;`,

	// Script 11 lists the entries of an attempt of the main lane that leaves out others before
	// its last one.
	`ALTER TABLE attempt ADD COLUMN picked TEXT NOT NULL DEFAULT 'null';`,

	streamsScript,

	failureScript,

	lastingScript,

	acknowledgedScript,

	pacedScript,

	// Script 17 counts occurrences whose object could not be read separately from those whose object is
	// gone.
	`ALTER TABLE status_count ADD COLUMN undecided INTEGER NOT NULL DEFAULT 0;`,

	// Script 18 stores when a group is over: GroupLife or Membership.Open after its last occurrence.
	`ALTER TABLE open_group ADD COLUMN over INTEGER NOT NULL DEFAULT 0;
	UPDATE open_group SET over = newest + 3600000000;`,

	// Script 19 stores when the last message of a group was due that did not only resolve it.
	`ALTER TABLE open_group ADD COLUMN paced INTEGER NOT NULL DEFAULT 0;
	UPDATE open_group SET paced = due WHERE NOT resolved;`,

	// Script 20 stores since when Events are needed for what waited at a restore of etcd.
	`ALTER TABLE state ADD COLUMN since INTEGER NOT NULL DEFAULT 0;`,

	// Script 21 counts occurrences whose object lacks a label or an annotation of spec.group.by.
	`ALTER TABLE status_count ADD COLUMN without_group_key INTEGER NOT NULL DEFAULT 0;`,

	// Script 22 stores the alarm of a group by its UID, so that its groups end with it.
	`ALTER TABLE open_group ADD COLUMN alarm_uid TEXT NOT NULL DEFAULT '';
	CREATE INDEX group_by_alarm_uid ON open_group (alarm_uid);`,
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

func openWriter(ctx context.Context, path string, maxBytes int64, memory *memory, compose Composer) (*writer, error) {
	// auto_vacuum comes first: it has an effect only before the first write to the file.
	pragmas := append([]string{"auto_vacuum(INCREMENTAL)"}, pragmas...)
	pragmas = append(pragmas, fmt.Sprintf("journal_size_limit(%d)", walLimit), fmt.Sprintf("max_page_count(%d)", maxBytes/pageSize))
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
	return &writer{db: db, conn: conn, compose: compose, stmts: map[string]*sql.Stmt{}, accounts: map[accountKey]int64{}, memory: memory, maxPages: maxBytes / pageSize, maxUsed: usable(maxBytes)}, nil
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

// maxSetAside limits the damaged files that are kept. The newest are kept. Each can be as
// large as the outbox.
const maxSetAside = 1

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
		return fmt.Errorf("%w: install that release again, or delete the files %s*, and alarms continue from the checkpoint in the cluster", err, path)
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
