package outbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data?dir=%23#")
	commit(t, open(t, dir), "r", 1, 1)
	want := map[string]fs.FileMode{
		".": fs.ModeDir | 0o700, "lock": 0o600, FileName: 0o600, FileName + "-wal": 0o600, FileName + "-shm": 0o600,
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

func TestSecondLedgerOnADirectoryIsRefused(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	first := open(t, dir)
	if _, err := Open(ctx, dir); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	commit(t, first, "r", 1, 1)
	must(t, first.Close())
	open(t, dir)
}

func TestClosedLedgerSaysSo(t *testing.T) {
	ctx, l := context.Background(), open(t, t.TempDir())
	must(t, l.Close())
	calls := map[string]func() error{
		"write":        func() error { return l.Commit(ctx, Batch{}) },
		"read":         func() error { return second(l.Pending(ctx, "r", 0, 1)) },
		"read one":     func() error { return second(l.Prepared(ctx, "r")) },
		"read counts":  func() error { return l.EachCount(ctx, nil) },
		"drop":         func() error { return second(l.DropReceiver(ctx, "r")) },
		"lazily write": func() error { return second(l.Prepare(ctx, "r", 1, "", nil)) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if err := call(); !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
}

func TestOlderFileIsMigratedAndNewerOneLeftAlone(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1, 2)
	must(t, l.Close())

	known := migrations
	t.Cleanup(func() { migrations = known })
	migrations = append(slices.Clone(known), `ALTER TABLE entry ADD COLUMN note TEXT NOT NULL DEFAULT 'new'`)
	l = open(t, dir)
	var note string
	must(t, l.readers.QueryRow(`SELECT note FROM entry WHERE id = 1`).Scan(&note))
	if note != "new" || l.Backlog("r").Entries != 2 {
		t.Errorf("migrated: got note %q and %+v, want the new column and both entries", note, l.Backlog("r"))
	}
	must(t, l.Close())

	migrations = known
	if _, err := Open(context.Background(), dir); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("newer: got %v, want ErrNewerSchema", err)
	}
	if got := asides(t, dir); len(got) != 0 {
		t.Errorf("newer: it was set aside as %v", got)
	}
}
