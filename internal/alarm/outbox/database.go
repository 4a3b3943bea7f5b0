package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver
)

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
