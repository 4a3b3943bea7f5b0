package outbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill commits until there is no space, and checks that what failed left no trace.
func fill(t *testing.T, l *Store) {
	t.Helper()
	for {
		before := l.Snapshot()
		from := int(before.Position) + 1
		err := l.Commit(context.Background(), Batch{Position: before.Position + 10, Entries: entries("r", from, 10)})
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrFull) {
			t.Fatalf("got %v, want ErrFull", err)
		}
		if diff := cmp.Diff(before, l.Snapshot()); diff != "" {
			t.Error(diff)
		}
		if got := pending(t, l, "r"); int64(len(got)) != before.Backlogs["r"].Entries {
			t.Errorf("got %d pending, want %d", len(got), before.Backlogs["r"].Entries)
		}
		return
	}
}

func TestFullLedgerLosesNothingAndWorksAgain(t *testing.T) {
	l := open(t, t.TempDir(), WithMaxPages(100))
	fill(t, l)
	_, err := l.Acknowledge(context.Background(), freeze(t, l, "r", 20))
	must(t, err)
	commit(t, l, "r", int(l.State().Position)+1, 10)
}

// What is only to be looked up must not keep what is to be sent from being stored.
func TestWhatIsKeptOfDigestsGivesWay(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, WithMaxPages(200))
	fill(t, l)
	n := len(pending(t, l, "r"))
	_, err := l.Acknowledge(context.Background(), freeze(t, l, "r", n))
	must(t, err)
	kept := len(lookAt(t, dir, "r", 0).Digested)
	for range n / 10 {
		commit(t, l, "r", int(l.State().Position)+1, 10)
	}
	if left := len(lookAt(t, dir, "r", 0).Digested); kept == 0 || left >= kept {
		t.Errorf("%d of %d are kept in a full file", left, kept)
	}
}

func TestFullDiskLosesNothingAndWorksAgain(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
	ballast := filepath.Join(mount, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 512<<10), 0o600))

	l := open(t, filepath.Join(mount, "data"))
	fill(t, l)
	must(t, os.Remove(ballast))
	want := l.State().Position + 10
	commit(t, l, "r", int(want)-9, 10)
	must(t, l.Close())
	l = open(t, filepath.Join(mount, "data"))
	if got := l.State().Position; got != want || l.Recovered() != nil {
		t.Errorf("after opening again: got position %d, recovered %v, want %d", got, l.Recovered(), want)
	}
	must(t, l.Close())
}

func TestFileGivesPagesBack(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1, 10*chunk)
	must(t, l.Close())
	large := size(t, dir)

	l = open(t, dir)
	_, err := l.DropReceiver(ctx, "r")
	must(t, err)
	must(t, l.Close())
	if small := size(t, dir); small > large/2 {
		t.Errorf("got %d bytes of %d before, want less than half", small, large)
	}
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, FileName))
	must(t, err)
	return info.Size()
}
