package file

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newer returns the schema of a later release.
func newer() Schema {
	s := notes
	s.Migrations = []string{`ALTER TABLE note ADD COLUMN author TEXT NOT NULL DEFAULT 'unknown'`, `UPDATE note SET author = 'migrated'`}
	return s
}

func openWith(t *testing.T, dir string, schema Schema) *File {
	t.Helper()
	f, err := Open(t.Context(), dir, schema, Options{Load: noLoad})
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func TestANewerReleaseMigratesTheFileOfAnOlderOne(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 0)
	write(t, f, "a")
	must(t, f.Close())
	for range 2 {
		f = openWith(t, dir, newer())
		var author string
		must(t, f.Readers().QueryRow(`SELECT author FROM note`).Scan(&author))
		if author != "migrated" {
			t.Errorf("the author is %q", author)
		}
		must(t, f.Close())
	}
}

func TestAMigrationThatFailsChangesNothing(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 0)
	write(t, f, "a")
	must(t, f.Close())
	broken := newer()
	broken.Migrations[1] = `UPDATE note SET text = 'b'; INSERT INTO nothing VALUES (1)`
	if _, err := Open(t.Context(), dir, broken, Options{Load: noLoad}); err == nil || !strings.Contains(err.Error(), "migrate to version 9: ") {
		t.Errorf("got %v", err)
	}
	assertTexts(t, openWith(t, dir, newer()), "a")
}

func TestAnOlderReleaseLeavesTheFileOfANewerOne(t *testing.T) {
	dir := t.TempDir()
	f := openWith(t, dir, newer())
	write(t, f, "a")
	must(t, f.Close())
	assertRefused(t, dir, ErrNewerSchema, "install that release again, or delete the files ")
	assertTexts(t, openWith(t, dir, newer()), "a") // that release is installed again
}

func TestAFileFromBeforeTheFirstReleaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 0)
	write(t, f, "a")
	must(t, f.Write(t.Context(), "set the version", 0, func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, notes.First-1))
		return err
	}))
	must(t, f.Close())
	assertRefused(t, dir, ErrOlderSchema, ": delete the files ")

	files, err := filepath.Glob(filepath.Join(dir, Name+"*")) // what the error advises
	must(t, err)
	for _, file := range files {
		must(t, os.Remove(file))
	}
	assertTexts(t, open(t, dir, 0))
}

// assertRefused fails if Open or View accepts a file, if Open changes it, or does not advise what to
// do with the files.
func assertRefused(t *testing.T, dir string, want error, advice string) {
	t.Helper()
	path := filepath.Join(dir, Name)
	before, err := os.ReadFile(path)
	must(t, err)
	_, err = Open(t.Context(), dir, notes, Options{Load: noLoad})
	if !errors.Is(err, want) || !strings.HasSuffix(err.Error(), advice+path+"*, and alarms continue from the checkpoint in the cluster") {
		t.Errorf("got %v, want %v with advice", err, want)
	}
	if after, err := os.ReadFile(path); err != nil || string(before) != string(after) {
		t.Errorf("the file was changed (%v)", err)
	}
	if err := View(t.Context(), dir, notes, func(context.Context, *sql.Tx) error { return nil }); !errors.Is(err, want) {
		t.Errorf("View: got %v, want %v", err, want)
	}
}

func TestAViewSeesWhatTheLatestReleaseWrote(t *testing.T) {
	dir := t.TempDir()
	n := 0
	view := func(schema Schema) error {
		return View(t.Context(), dir, schema, func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT count(*) FROM note`).Scan(&n)
		})
	}
	if err := view(notes); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	f := open(t, dir, 0)
	write(t, f, "a")
	must(t, view(notes))
	if n != 1 {
		t.Errorf("got %d notes, want 1", n)
	}
	if err := view(newer()); !errors.Is(err, ErrOlderSchema) {
		t.Errorf("a file that is not migrated: got %v, want ErrOlderSchema", err)
	}
}
