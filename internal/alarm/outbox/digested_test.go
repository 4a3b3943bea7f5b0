package outbox

import (
	"context"
	"errors"
	"fmt"
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

func TestWhatADigestToldOfCanBeLookedUp(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	clk := testingclock.NewFakePassiveClock(day)
	l := open(t, dir, WithClock(clk))
	commit(t, l, "r", 1, 4)
	digest := freeze(t, l, "r", 3)
	clk.SetTime(day.Add(time.Minute))
	_, err := l.Acknowledge(ctx, digest)
	must(t, err)
	_, err = l.Acknowledge(ctx, freeze(t, l, "r", 1))
	must(t, err)

	got := lookAt(t, dir, "r", 0)
	if got.Entries != 0 || len(got.Waiting) != 0 {
		t.Errorf("%+v waits", got.Waiting)
	}
	var want []DigestedEntry
	for _, id := range []int64{3, 2, 1} {
		want = append(want, DigestedEntry{
			Entry:  Entry{ID: id, Receiver: "r", Alarm: "Alarm/shop/rollouts", Count: 1, CreatedAt: day, Payload: payload},
			Digest: "key", Delivered: true, EndedAt: day.Add(time.Minute),
		})
	}
	if diff := cmp.Diff(want, got.Digested); diff != "" {
		t.Error(diff)
	}

	_, err = l.DropReceiver(ctx, "r")
	must(t, err)
	if got := lookAt(t, dir, "r", 0); len(got.Digested) > 0 {
		t.Error("it is kept though the receiver is gone")
	}
}

func TestADigestThatWasGivenUpIsToldFromOneThatArrived(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	commit(t, l, "r", 1, 2)
	a := freeze(t, l, "r", 2)
	a.GivenUp = true
	_, err := l.Acknowledge(context.Background(), a)
	must(t, err)
	got := lookAt(t, dir, "r", 0)
	if len(got.Digested) != 2 || got.Digested[0].Delivered {
		t.Errorf("got %+v", got.Digested)
	}
}

func TestDigestsAreKeptUpToABound(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	clk := testingclock.NewFakePassiveClock(day)
	l := open(t, dir, WithClock(clk))
	settle := func(receiver string, from, n int) {
		t.Helper()
		commit(t, l, receiver, from, n)
		_, err := l.Acknowledge(ctx, freeze(t, l, receiver, n))
		must(t, err)
	}
	settle("r", 1, 2*chunk+500)
	got := lookAt(t, dir, "r", 0).Digested
	if len(got) != maxDigested || got[0].ID != 2*chunk+500 || got[maxDigested-1].ID != chunk+501 {
		t.Errorf("kept %d, from %d on, of the newest %d", len(got), got[len(got)-1].ID, maxDigested)
	}
	settle("r", 3_001, 10)
	if got := lookAt(t, dir, "r", 0).Digested; len(got) != maxDigested || got[0].ID != 2*chunk+510 {
		t.Errorf("kept %d, %d the newest", len(got), got[0].ID)
	}

	clk.SetTime(day.Add(digestedLife))
	settle("other", 4_001, 2)
	if got := lookAt(t, dir, "r", 0).Digested; len(got) != 0 {
		t.Errorf("%d are kept after a day", len(got))
	}
	for i := range maxDigestedAll/maxDigested + 1 {
		clk.SetTime(clk.Now().Add(time.Second))
		settle(fmt.Sprint("flooded-", i), 5_000+i*maxDigested, maxDigested)
	}
	all := 0
	v, err := Inspect(ctx, dir, 0, everyone)
	must(t, err)
	for _, o := range v.Receivers {
		all += len(o.Digested)
	}
	if all == 0 || all > maxDigestedAll {
		t.Errorf("%d are kept of all receivers", all)
	}
}

// Crashed in the midst of settling, it is settled at the next start, and kept as well.
func TestADigestIsKeptThoughTheProcessEndsWhileItIsSettled(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	clk := WithClock(testingclock.NewFakePassiveClock(day))
	l := open(t, dir, clk)
	commit(t, l, "r", 1, chunk+10)
	a := freeze(t, l, "r", chunk+10)
	a.GivenUp = true
	must(t, l.write(ctx, "settling in part", func(ctx context.Context, tx *tx) error {
		_, _, err := tx.acknowledge(ctx, a, day)
		return err
	}))
	if got := lookAt(t, dir, "r", 0); got.Entries != 0 {
		t.Errorf("%d entries are said to wait that were settled", got.Entries)
	}
	must(t, l.Close())
	must(t, open(t, dir, clk).Close())
	got := lookAt(t, dir, "r", 0).Digested
	if len(got) != maxDigested || got[0].ID != chunk+10 || got[0].Delivered || got[maxDigested-1].Delivered {
		t.Errorf("kept %d, %+v the newest", len(got), got[0].EndedAt)
	}
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
