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
)

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
	if err := s.Commit(ctx, next); !errors.Is(err, ErrFull) {
		t.Fatalf("an Event was stored in the space for sending: %v", err)
	}
	must(t, s.Close())
	s = open(t, dir, WithMaxBytes(32<<20))
	if !s.reserve.spent {
		t.Error("the next process does not know that the reserve is spent")
	}
	must(t, os.Remove(rest))
	must(t, s.Commit(ctx, next))
	if info, err := os.Stat(filepath.Join(dir, ReserveName)); err != nil || info.Size() != 2<<20 {
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
			must(t, os.Remove(filepath.Join(dir, FileName+"-shm")))
			must(t, os.WriteFile(spare, make([]byte, pages*pageSize), 0o600))
			fillDisk(t, filepath.Join(mount, "rest"))
			must(t, os.Remove(spare))
			s := open(t, dir, WithMaxBytes(32<<20))
			if got := pending(t, s, "r"); len(got) != 1 {
				t.Errorf("%d messages wait", len(got))
			}
			must(t, s.Claim(ctx, "term"))
			must(t, s.Confirm(ctx))
			must(t, s.dropHeld(ctx, DeliveredOffsets{Default: 1}))
			must(t, s.Replay(ctx, Replay{Position: 1, Handled: DeliveredOffsets{Default: 1}}))
		})
	}
}

func TestADiskThatIsTooSmallForAReserveWorks(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(mount, 0)) })
	dir := filepath.Join(mount, "data")
	for position := range 2 {
		s := open(t, dir, WithMaxBytes(512<<20))
		commit(t, s, "r", position+1, 1)
		must(t, s.Close())
	}
	if _, err := os.Stat(filepath.Join(dir, ReserveName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has a reserve: %v", err)
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
	if err := s.CanCommit(context.Background()); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
		t.Error(diff)
	}
	must(t, s.Close())
}

func TestCanCommitIsFalseInAFullOutbox(t *testing.T) {
	s := open(t, t.TempDir(), WithMaxBytes(100*pageSize))
	fill(t, s)
	if err := s.CanCommit(context.Background()); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}
