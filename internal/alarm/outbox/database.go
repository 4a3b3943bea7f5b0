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
