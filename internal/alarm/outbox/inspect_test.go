package outbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/group"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

func everyReceiver(string) bool { return true }

// inspectReceiver returns the view of a receiver, zero if there is none.
func inspectReceiver(t testing.TB, dir, receiver string, limit int) ReceiverView {
	t.Helper()
	v, err := Inspect(context.Background(), dir, limit, func(r string) bool { return r == receiver })
	must(t, err)
	if len(v.Receivers) == 0 {
		return ReceiverView{}
	}
	return v.Receivers[0]
}

func TestInspectShowsWaitingEntriesAndTheirState(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir, WithClock(testingclock.NewFakePassiveClock(day)))
	commit(t, s, "r", 1, 3)
	prepare(t, s, "r", 1)
	member := entries("r", 4, 1)
	member[0].Member = &Membership{Group: "g", Rule: group.Rule{Wait: 5 * time.Second}, Event: group.Event{At: day}}
	must(t, s.Commit(ctx, Change{Events: &EventStep{Position: 4}, Entries: member}))
	commit(t, s, "another", 5, 1)

	got := inspectReceiver(t, dir, "r", 0)
	if got.Entries != 4 || got.Count != 4 || len(got.Waiting) != 4 {
		t.Fatalf("got %+v", got)
	}
	for i, want := range []struct{ tried, due time.Time }{{tried: day}, {}, {}, {due: day.Add(6 * time.Second)}} {
		if w := got.Waiting[i]; w.FirstTried != want.tried || w.Due != want.due || w.Position != uint64(i+1) {
			t.Errorf("%d: tried %v, due %v", w.Position, w.FirstTried, w.Due)
		}
	}
	if got := inspectReceiver(t, dir, "r", 2); got.Entries != 4 || len(got.Waiting) != 2 {
		t.Errorf("with a limit: %d of %d", len(got.Waiting), got.Entries)
	}
}

// Inspect must not block the process that has the outbox open. It must not leave files
// either: the operator might be unable to open files of another user.
func TestInspectChangesNothing(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := open(t, dir)
	commit(t, s, "r", 1, 10)
	before := contents(t, dir)
	_ = inspectReceiver(t, dir, "r", 0)
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Error("while it is open: ", diff)
	}
	commit(t, s, "r", 11, 1)
	must(t, s.Close())

	before = contents(t, dir)
	if got := inspectReceiver(t, dir, "r", 0); got.Entries != 11 {
		t.Errorf("got %d entries", got.Entries)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Error("while it is closed: ", diff)
	}

	killed := t.TempDir() // the WAL is not yet moved into the database
	s = open(t, dir)
	commit(t, s, "r", 12, 1)
	must(t, os.CopyFS(killed, os.DirFS(dir)))
	must(t, os.Remove(filepath.Join(killed, file.Name+"-shm")))
	before = contents(t, killed)
	before[file.Name+"-shm"] = "" // created again
	if got := inspectReceiver(t, killed, "r", 0); got.Entries != 12 {
		t.Errorf("got %d entries", got.Entries)
	}
	if diff := cmp.Diff(before, contents(t, killed)); diff != "" {
		t.Error("of an operator that was killed: ", diff)
	}
	if _, err := Inspect(ctx, t.TempDir(), 0, everyReceiver); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without an outbox: %v", err)
	}
}

// contents returns the files with their contents. It leaves out the contents of the index
// of the WAL, which every reader changes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[d.Name()] = string(data)
		if strings.HasSuffix(path, "-shm") {
			files[d.Name()] = ""
		}
		return err
	}))
	return files
}
