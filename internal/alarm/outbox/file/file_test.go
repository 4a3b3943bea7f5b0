package file

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

var day = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// notes is a schema with one table.
var notes = Schema{Script: `CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT`, First: 7}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noLoad(context.Context, *sql.DB) error { return nil }

func open(t testing.TB, dir string, maxBytes int64) *File {
	t.Helper()
	f, err := Open(t.Context(), dir, notes, Options{MaxBytes: maxBytes, Load: noLoad, Clock: testingclock.NewFakePassiveClock(day)})
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

// note returns a change that stores a note.
func note(text string) func(context.Context, *Tx) error {
	return func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO note (text) VALUES (?)`, text)
		return err
	}
}

func write(t testing.TB, f *File, text string) {
	t.Helper()
	must(t, f.Write(t.Context(), "store a note", 0, note(text)))
}

// texts returns the texts of all notes, in the order in which they were stored.
func texts(ctx context.Context, f *File) (all []string, err error) {
	rows, err := f.Readers().QueryContext(ctx, `SELECT text FROM note ORDER BY id`)
	if err != nil {
		return nil, f.Read("read the notes", err)
	}
	defer rows.Close()
	for rows.Next() {
		all = append(all, "")
		if err := rows.Scan(&all[len(all)-1]); err != nil {
			return nil, err
		}
	}
	return all, f.Read("read the notes", rows.Err())
}

func assertTexts(t *testing.T, f *File, want ...string) {
	t.Helper()
	got, err := texts(t.Context(), f)
	must(t, err)
	if !slices.Equal(want, got) {
		t.Errorf("got the notes %q, want %q", got, want)
	}
}

func TestOnlyTheOwnerCanReadTheFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data?dir=%23#")
	write(t, open(t, dir, 0), "a")
	want := map[string]fs.FileMode{
		".": fs.ModeDir | 0o700, "lock": 0o600, Name: 0o600, Name + "-wal": 0o600, Name + "-shm": 0o600,
	}
	got := map[string]fs.FileMode{}
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		name, err := filepath.Rel(dir, path)
		got[name] = info.Mode()
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestASecondFileInADirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, 0)
	if _, err := Open(t.Context(), dir, notes, Options{Load: noLoad}); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	write(t, first, "a")
	must(t, first.Close())
	assertTexts(t, open(t, dir, 0), "a")
}

func TestCallsOfAClosedFileFail(t *testing.T) {
	f := open(t, t.TempDir(), 0)
	must(t, f.Close())
	if err := f.Write(t.Context(), "store a note", Lazy, note("a")); !errors.Is(err, ErrClosed) || !strings.HasPrefix(err.Error(), "store a note: ") {
		t.Errorf("write: got %v, want ErrClosed", err)
	}
	if _, err := texts(t.Context(), f); !errors.Is(err, ErrClosed) || !strings.HasPrefix(err.Error(), "read the notes: ") {
		t.Errorf("read: got %v, want ErrClosed", err)
	}
	if _, err := f.Used(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("used: got %v, want ErrClosed", err)
	}
}

func TestDamageThatIsFoundWhileTheFileIsOpenIsReported(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(t.Context(), dir, notes, Options{Load: noLoad})
	must(t, err)
	defer func() { _ = f.Close() }() // can fail, because it is damaged
	for range 8 {
		write(t, f, strings.Repeat("a", 1<<20)) // more than SQLite keeps in memory
	}
	for _, name := range []string{Name, Name + "-wal"} {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
		must(t, err)
		info, err := file.Stat()
		must(t, err)
		_, err = file.WriteAt(bytes.Repeat([]byte("x"), int(info.Size())), 0)
		must(t, errors.Join(err, file.Close()))
	}
	for range 2 {
		if _, err := texts(t.Context(), f); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("got %v, want ErrCorrupt", err)
		}
	}
	if err := <-f.Damaged(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reported: %v, want ErrCorrupt", err)
	}
}
