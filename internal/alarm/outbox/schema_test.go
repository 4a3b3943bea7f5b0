package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file that was made with an edited script would lack the edit. Comments and spaces do not count.
func TestTheTablesOfAVersionNeverChange(t *testing.T) {
	known := []string{"30: 52632585a56c"}
	ignored := regexp.MustCompile(`--[^\n]*|\s+`)
	var got []string
	for i, script := range append([]string{schema}, migrations...) {
		got = append(got, fmt.Sprintf("%d: %.6x", firstVersion+i, sha256.Sum256([]byte(ignored.ReplaceAllString(script, "")))))
	}
	if diff := cmp.Diff(known, got); diff != "" {
		t.Errorf("a script was edited: before the first release, increase firstVersion; after it, append a migration; then change known: %s", diff)
	}
}

// withMigration appends a migration for the test.
func withMigration(t *testing.T) {
	t.Helper()
	known := migrations
	t.Cleanup(func() { migrations = known })
	migrations = append(slices.Clone(known), `
		ALTER TABLE entry ADD COLUMN note TEXT NOT NULL DEFAULT 'new';
		UPDATE entry SET note = 'old'`)
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
