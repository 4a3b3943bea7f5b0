package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file that was made with an edited script would lack the edit. Comments and spaces do not count.
func TestTheTablesOfAVersionNeverChange(t *testing.T) {
	known := []string{"25: 8cf0589999ed"}
	ignored := regexp.MustCompile(`--[^\n]*|\s+`)
	var got []string
	for i, script := range append([]string{schema}, migrations...) {
		got = append(got, fmt.Sprintf("%d: %.6x", firstVersion+i, sha256.Sum256([]byte(ignored.ReplaceAllString(script, "")))))
	}
	if diff := cmp.Diff(known, got); diff != "" {
		t.Errorf("a script was edited: before the first release, increase firstVersion; after it, append a migration; then change known: %s", diff)
	}
}

// withMigration appends a migration until the returned function is called.
func withMigration(t *testing.T) (remove func()) {
	t.Helper()
	known := migrations
	remove = func() { migrations = known }
	t.Cleanup(remove)
	migrations = append(slices.Clone(known), `
		ALTER TABLE entry ADD COLUMN note TEXT NOT NULL DEFAULT 'new';
		UPDATE entry SET note = 'old'`)
	return remove
}

// The outbox has a prepared message, entries, and an occurrence that waits in its group.
func TestANewerReleaseReadsTheOutboxOfAnOlderOne(t *testing.T) {
	ctx, g := context.Background(), newGrouped(t)
	g.occur(0, nil, "a")
	commit(t, g.Store, "s", 10, 3)
	attempt, state := prepare(t, g.Store, "s", 1), g.State()

	withMigration(t)
	g.restart()
	if diff := cmp.Diff(state, g.State()); diff != "" {
		t.Error(diff)
	}
	var notes []string
	rows, err := g.readers.Query(`SELECT note FROM entry`)
	must(t, each(rows, err, func(rows *sql.Rows) error {
		var note string
		err := rows.Scan(&note)
		notes = append(notes, note)
		return err
	}))
	if diff := cmp.Diff([]string{"old", "old", "old"}, notes); diff != "" {
		t.Error(diff)
	}
	prepared, err := g.Prepared(ctx, "s", MainLane)
	must(t, err)
	if diff := cmp.Diff(attempt, prepared); diff != "" {
		t.Fatal(diff)
	}
	_, err = g.Finish(ctx, prepared, Outcome{})
	must(t, err)
	must(t, deliver(g.Store, "s"))
	g.at(10)
	if diff := cmp.Diff([]string{"a=1"}, g.sendDue()); diff != "" {
		t.Error(diff)
	}
	assertNothingWaits(t, g.Store)
}

func TestAnOlderReleaseLeavesTheOutboxOfANewerOne(t *testing.T) {
	dir, removeMigration := t.TempDir(), withMigration(t)
	s := open(t, dir)
	commit(t, s, "r", 1, 2)
	must(t, s.Close())

	removeMigration()
	assertRefused(t, dir, ErrNewerSchema, "install that release again, or delete the files ")

	withMigration(t) // that release is installed again
	if got := open(t, dir).Backlog("r").Entries; got != 2 {
		t.Errorf("%d entries are left, want 2", got)
	}
}

func TestAFileFromBeforeTheFirstReleaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1, 2)
	must(t, s.write(context.Background(), "set the version", func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, firstVersion-1))
		return err
	}))
	must(t, s.Close())

	assertRefused(t, dir, ErrOlderSchema, ": delete the files ")
	if _, err := Inspect(context.Background(), dir, 0, everyReceiver); !errors.Is(err, ErrOlderSchema) {
		t.Errorf("Inspect: got %v, want ErrOlderSchema", err)
	}

	files, err := filepath.Glob(filepath.Join(dir, FileName+"*")) // what the error advises
	must(t, err)
	for _, file := range files {
		must(t, os.Remove(file))
	}
	if got := open(t, dir).Backlog("r").Entries; got != 0 {
		t.Errorf("%d entries in a new outbox", got)
	}
}

// assertRefused fails if Open accepts or changes an outbox, or does not advise what to do with its
// files.
func assertRefused(t *testing.T, dir string, want error, advice string) {
	t.Helper()
	before := contents(t, dir)[FileName]
	_, err := Open(context.Background(), dir)
	if !errors.Is(err, want) || !strings.HasSuffix(err.Error(), advice+filepath.Join(dir, FileName)+"*, and alarms continue from the checkpoint in the cluster") {
		t.Errorf("got %v, want %v with advice", err, want)
	}
	if contents(t, dir)[FileName] != before {
		t.Error("the file was changed")
	}
}
