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
)

func everyone(string) bool { return true }

// lookAt returns what is to be seen of a receiver; the zero Outlook if nothing is.
func lookAt(t testing.TB, dir, receiver string, limit int) ReceiverView {
	t.Helper()
	v, err := Inspect(context.Background(), dir, limit, func(r string) bool { return r == receiver })
	must(t, err)
	if len(v.Receivers) == 0 {
		return ReceiverView{}
	}
	return v.Receivers[0]
}

func TestLookingShowsWhatWaitsAndWhatFor(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir, WithClock(testingclock.NewFakePassiveClock(day)))
	commit(t, l, "r", 1, 3)
	freeze(t, l, "r", 1)
	member := entries("r", 4, 1)
	member[0].Member = &Membership{Group: "g", At: day, Wait: 5 * time.Second}
	must(t, l.Commit(ctx, Batch{Position: 4, Entries: member}))
	commit(t, l, "another", 5, 1)

	got := lookAt(t, dir, "r", 0)
	if got.Entries != 4 || got.Count != 4 || len(got.Waiting) != 4 {
		t.Fatalf("got %+v", got)
	}
	for i, want := range []struct{ tried, due time.Time }{{tried: day}, {}, {}, {due: day.Add(6 * time.Second)}} {
		if w := got.Waiting[i]; w.FirstTried != want.tried || w.Due != want.due || w.Position != uint64(i+1) {
			t.Errorf("%d: tried %v, due %v", w.Position, w.FirstTried, w.Due)
		}
	}
	if got := lookAt(t, dir, "r", 2); got.Entries != 4 || len(got.Waiting) != 2 {
		t.Errorf("with a limit: %d of %d", len(got.Waiting), got.Entries)
	}
}

// It must not get into the way of whoever has the ledger open, nor leave a trace: the
// user may be another, whose files the operator could not open.
func TestLookingChangesNothing(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1, 10)
	before := contents(t, dir)
	_ = lookAt(t, dir, "r", 0)
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Error("while it is open: ", diff)
	}
	commit(t, l, "r", 11, 1)
	must(t, l.Close())

	before = contents(t, dir)
	if got := lookAt(t, dir, "r", 0); got.Entries != 11 {
		t.Errorf("got %d entries", got.Entries)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Error("while it is closed: ", diff)
	}

	killed := t.TempDir() // with what was not yet moved into the database
	l = open(t, dir)
	commit(t, l, "r", 12, 1)
	must(t, os.CopyFS(killed, os.DirFS(dir)))
	must(t, os.Remove(filepath.Join(killed, FileName+"-shm")))
	before = contents(t, killed)
	before[FileName+"-shm"] = "" // that it makes anew
	if got := lookAt(t, killed, "r", 0); got.Entries != 12 {
		t.Errorf("got %d entries", got.Entries)
	}
	if diff := cmp.Diff(before, contents(t, killed)); diff != "" {
		t.Error("of an operator that was killed: ", diff)
	}
	if _, err := Inspect(ctx, t.TempDir(), 0, everyone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no ledger: %v", err)
	}
}

// contents are the sizes and times of the files; of the index of the WAL, which every
// reader enters itself into, only that it is there.
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
