package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// fill commits until there is no space. It checks that the failed commit changed nothing.
func fill(t *testing.T, s *Store) {
	t.Helper()
	for {
		before := s.Snapshot()
		from := int(before.Position) + 1
		err := s.Commit(context.Background(), Change{Events: &EventStep{Position: before.Position + 10}, Entries: entries("r", from, 10)})
		if err == nil {
			continue
		}
		if !errors.Is(err, file.ErrFull) {
			t.Fatalf("got %v, want ErrFull", err)
		}
		if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
			t.Error(diff)
		}
		if got := pending(t, s, "r"); int64(len(got)) != before.Backlogs["r"].Entries {
			t.Errorf("got %d pending, want %d", len(got), before.Backlogs["r"].Entries)
		}
		return
	}
}

func TestAFullFileLosesNothingAndWorksAgain(t *testing.T) {
	s := open(t, t.TempDir(), WithMaxBytes(100*file.PageSize))
	fill(t, s)
	_, err := s.Finish(context.Background(), prepare(t, s, "r", 20), Outcome{})
	must(t, err)
	commit(t, s, "r", int(s.State().Position)+1, 10)
}

// Entries of past digests must not take the space of entries that wait.
func TestAFullFileDropsPastDigestsFirst(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, WithMaxBytes(210*file.PageSize))
	fill(t, s)
	n := len(pending(t, s, "r"))
	_, err := s.Finish(context.Background(), prepare(t, s, "r", min(n/2, MaxEntries)), Outcome{KeepEntries: true})
	must(t, err)
	kept := len(inspectReceiver(t, dir, "r", 0).Digested)
	for range n / 25 {
		commit(t, s, "r", int(s.State().Position)+1, 10)
	}
	if left := len(inspectReceiver(t, dir, "r", 0).Digested); kept == 0 || left >= kept {
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
	must(t, os.WriteFile(ballast, make([]byte, 768<<10), 0o600))

	s := open(t, filepath.Join(mount, "data"))
	fill(t, s)
	must(t, os.Remove(ballast))
	want := s.State().Position + 10
	commit(t, s, "r", int(want)-9, 10)
	must(t, s.Close())
	s = open(t, filepath.Join(mount, "data"))
	if got := s.State().Position; got != want || s.Recovered() != nil {
		t.Errorf("after opening again: got position %d, recovered %v, want %d", got, s.Recovered(), want)
	}
	must(t, s.Close())
}

func TestTheFileShrinksAfterRemovals(t *testing.T) {
	skipIfShort(t)
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1, 10*chunk)
	must(t, s.Close())
	large := size(t, dir)

	s = open(t, dir)
	_, err := s.DropReceiver(ctx, "r")
	must(t, err)
	must(t, s.Close())
	if small := size(t, dir); small > large/2 {
		t.Errorf("got %d bytes of %d before, want less than half", small, large)
	}
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, file.Name))
	must(t, err)
	return info.Size()
}

// Something else fills the disk. The messages that wait are still sent and removed, and
// nothing else uses the space that is kept for it.
func TestAFullDiskStillSendsAndAcknowledges(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
	ctx, dir := context.Background(), filepath.Join(mount, "data")
	s := open(t, dir, WithMaxBytes(32<<20))
	for r := range 100 {
		commit(t, s, fmt.Sprint("r", r), 1+10*r, 10)
	}
	rest := filepath.Join(mount, "rest")
	fillDisk(t, rest)
	for r := range 100 { // the bodies alone need more than the WAL has
		receiver := fmt.Sprint("r", r)
		pending, err := s.Pending(ctx, Query{Receiver: receiver, Lane: MainLane, Limit: 1})
		must(t, err)
		a, err := s.Prepare(ctx, receiver, MainLane, []int64{pending[0].ID}, pending[0].Key, bytes.Repeat([]byte("b"), 10_000))
		must(t, err)
		_, err = s.Finish(ctx, a, Outcome{})
		must(t, err)
	}
	next := Change{Events: &EventStep{Position: 2_000}, Entries: entries("r0", 2_000, 1)}
	if err := s.Commit(ctx, next); !errors.Is(err, file.ErrFull) {
		t.Fatalf("an Event was stored in the space for sending: %v", err)
	}
	must(t, s.Close())
	more := filepath.Join(mount, "more")
	fillDisk(t, more) // Close removes the WAL, whose space the next process needs in part
	info, err := os.Stat(more)
	must(t, err)
	must(t, os.Truncate(more, info.Size()-1<<20))
	s = open(t, dir, WithMaxBytes(32<<20))
	if err := s.Commit(ctx, next); !errors.Is(err, file.ErrFull) {
		t.Fatalf("the next process stored an Event in the space for sending: %v", err)
	}
	must(t, errors.Join(os.Remove(rest), os.Remove(more)))
	must(t, s.Commit(ctx, next))
	if info, err := os.Stat(filepath.Join(dir, file.ReserveName)); err != nil || info.Size() != 2<<20 {
		t.Errorf("after there is space again, the reserve is %v, %v", info, err)
	}
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func TestAnOutboxOpensOnAFullDisk(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
	dir := filepath.Join(mount, "data")
	s := open(t, dir, WithMaxBytes(32<<20))
	commit(t, s, "r", 1, 1)
	must(t, s.Close())
	fillDisk(t, filepath.Join(mount, "rest"))
	s = open(t, dir, WithMaxBytes(32<<20))
	must(t, deliver(s, "r"))
}

// A replica takes over while the disk is full, or nearly so: opening the outbox can use up
// the last pages. It would start again and again otherwise.
func TestATermBeginsOnAFullDisk(t *testing.T) {
	skipIfShort(t)
	source := t.TempDir()
	s := open(t, source, WithMaxBytes(32<<20))
	commit(t, s, "r", 1, 1)
	killed := os.DirFS(source) // what a process that was killed leaves: the outbox is open
	for pages := range 24 {
		t.Run(fmt.Sprintf("%d pages are free", pages), func(t *testing.T) {
			mount := t.TempDir()
			if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=24m"); err != nil {
				t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
			}
			t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
			ctx, dir, spare := context.Background(), filepath.Join(mount, "data"), filepath.Join(mount, "spare")
			must(t, os.CopyFS(dir, killed))
			must(t, os.Remove(filepath.Join(dir, file.Name+"-shm")))
			must(t, os.WriteFile(spare, make([]byte, pages*file.PageSize), 0o600))
			fillDisk(t, filepath.Join(mount, "rest"))
			must(t, os.Remove(spare))
			s := open(t, dir, WithMaxBytes(32<<20))
			if got := pending(t, s, "r"); len(got) != 1 {
				t.Errorf("%d messages wait", len(got))
			}
			must(t, s.Claim(ctx, "term"))
			must(t, s.Confirm(ctx))
			must(t, s.Replay(ctx, Replay{Position: 1, Delivered: offsets{"": {Position: 1}}, Handled: progress.Offsets{Position: 1}}))
		})
	}
}

// A tenant can create any number of receivers that do not answer.
func TestPreparedMessagesOfANamespaceLeaveSpaceForOthers(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir, WithMaxBytes(16<<20))
	commit(t, s, "AlarmReceiver/victim/works", 1, 2)
	body, hostile := make([]byte, 100<<10), 0
	for ; hostile < 1_000; hostile++ {
		receiver := fmt.Sprint("AlarmReceiver/hostile/r", hostile)
		commit(t, s, receiver, hostile+3, 1)
		pending, err := s.Pending(ctx, Query{Receiver: receiver, Lane: MainLane, Limit: 1})
		must(t, err)
		if _, err = s.Prepare(ctx, receiver, MainLane, []int64{pending[0].ID}, "key", body); errors.Is(err, ErrTooManyPrepared) {
			break
		}
		must(t, err)
	}
	if hostile < 2 || hostile > 20 {
		t.Errorf("%d messages of 100 KiB are prepared for receivers of one namespace", hostile)
	}
	must(t, s.Close())
	s = open(t, dir, WithMaxBytes(16<<20))
	waits := fmt.Sprint("AlarmReceiver/hostile/r", hostile)
	tryAgain := func() error {
		pending, err := s.Pending(ctx, Query{Receiver: waits, Lane: MainLane, Limit: 1})
		must(t, err)
		_, err = s.Prepare(ctx, waits, MainLane, []int64{pending[0].ID}, "key", body)
		return err
	}
	if err := tryAgain(); !errors.Is(err, ErrTooManyPrepared) {
		t.Errorf("after a restart: %v", err)
	}
	must(t, deliver(s, "AlarmReceiver/victim/works"))
	for r := range hostile / 2 {
		a, err := s.Prepared(ctx, fmt.Sprint("AlarmReceiver/hostile/r", r), MainLane)
		must(t, err)
		_, err = s.Finish(ctx, a, Outcome{})
		must(t, err)
	}
	if err := tryAgain(); err != nil {
		t.Errorf("after some were delivered: %v", err)
	}
}

func TestCanCommitIsFalseOnAFullDiskAndChangesNothing(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
	s := open(t, filepath.Join(mount, "data"))
	commit(t, s, "r", 1, 10)
	before := s.Snapshot()
	must(t, s.CanCommit(context.Background()))
	ballast := filepath.Join(mount, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 40<<20), 0o600))
	if err := s.CanCommit(context.Background()); !errors.Is(err, file.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
		t.Error(diff)
	}
	must(t, s.Close())
}

func TestCanCommitIsFalseInAFullOutbox(t *testing.T) {
	s := open(t, t.TempDir(), WithMaxBytes(100*file.PageSize))
	fill(t, s)
	if err := s.CanCommit(context.Background()); !errors.Is(err, file.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}
