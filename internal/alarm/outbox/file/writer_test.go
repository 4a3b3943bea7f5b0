package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// commits contains a text for each commit.
type commits struct {
	text  string
	texts []string
}

func (c *commits) Committed() { c.texts = append(c.texts, c.text) }

func TestChangesThatWaitTogetherShareATransaction(t *testing.T) {
	f := open(t, t.TempDir(), 0)
	transactions := map[*Tx]int{}
	committed := &commits{}
	count := func(_ context.Context, tx *Tx) error {
		if first := tx.Data == nil; first != (len(transactions) == 0) {
			t.Errorf("the first change: %v", first)
		}
		tx.Data = committed
		transactions[tx]++
		return nil
	}
	f.writer.queue = []*request{{change: count}, {change: count}, {change: count}}
	f.writer.flush(t.Context())
	if len(transactions) != 1 || len(committed.texts) != 1 {
		t.Errorf("got %d transactions, %d commits, want 1", len(transactions), len(committed.texts))
	}
}

func TestAChangeThatFailsDoesNotFailOthers(t *testing.T) {
	f, wrong := open(t, t.TempDir(), 0), errors.New("wrong")
	var committed commits
	store := func(text string, err error) func(context.Context, *Tx) error {
		return func(ctx context.Context, tx *Tx) error {
			committed.text, tx.Data = text, &committed
			return errors.Join(note(text)(ctx, tx), err)
		}
	}
	requests := []*request{{change: store("first", nil)}, {change: store("broken", wrong)}, {change: store("last", nil)}}
	f.writer.queue = requests
	f.writer.flush(t.Context())
	for i, want := range []error{nil, wrong, nil} {
		if !errors.Is(requests[i].err, want) {
			t.Errorf("request %d: got %v, want %v", i, requests[i].err, want)
		}
	}
	assertTexts(t, f, "first", "last")
	if diff := cmp.Diff([]string{"first", "last"}, committed.texts); diff != "" {
		t.Errorf("after the commits: %s", diff)
	}
}

func TestOnlyALazyTransactionDoesNotWaitForTheDisk(t *testing.T) {
	const normal, full = 1, 2 // https://www.sqlite.org/pragma.html#pragma_synchronous
	tests := map[string]struct {
		modes []Mode
		want  int
	}{
		"eager":             {modes: []Mode{Reserved}, want: full},
		"lazy":              {modes: []Mode{Lazy | Reserved}, want: normal},
		"lazy beside eager": {modes: []Mode{Lazy, 0, Lazy | Bounded}, want: full},
	}
	f := open(t, t.TempDir(), 0)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got int
			for _, mode := range tc.modes {
				f.writer.queue = append(f.writer.queue, &request{mode: mode, change: func(ctx context.Context, tx *Tx) error {
					return tx.Row(ctx, `PRAGMA synchronous`).Scan(&got)
				}})
			}
			f.writer.flush(t.Context())
			if got != tc.want {
				t.Errorf("synchronous: got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestACancelledCallChangesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := open(t, t.TempDir(), 0)
	if err := f.Write(ctx, "store a note", 0, note("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	assertTexts(t, f)
}

func TestABoundedChangeLeavesTheReservedSpace(t *testing.T) {
	const limit = 160 * PageSize
	f := open(t, t.TempDir(), limit)
	page := strings.Repeat("a", PageSize)
	stored := 0
	for ; ; stored++ {
		err := f.Write(t.Context(), "store a note", Bounded, note(page))
		if errors.Is(err, ErrFull) {
			break
		}
		must(t, err)
	}
	used, err := f.Used(t.Context())
	must(t, err)
	if used > f.Usable() || used < f.Usable()-4*PageSize || f.Usable() != 150*PageSize {
		t.Errorf("%d bytes are used, and %d are usable of %d", used, f.Usable(), limit)
	}
	if got, err := texts(t.Context(), f); err != nil || len(got) != stored {
		t.Errorf("%d notes (%v), want %d", len(got), err, stored)
	}
	write(t, f, page) // with the reserved space
	for err == nil {
		err = f.Write(t.Context(), "store a note", Reserved, note(page))
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("beyond the limit: got %v, want ErrFull", err)
	}
}

func TestTheFileShrinksWhileMostOfItIsFree(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 0)
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, Name))
		must(t, err)
		return info.Size()
	}
	for range 12 {
		write(t, f, strings.Repeat("a", 1<<20))
	}
	must(t, f.Close())
	large := size()

	f = open(t, dir, 0)
	for range 6 {
		must(t, f.Write(t.Context(), "delete the notes", 0, func(ctx context.Context, tx *Tx) error {
			tx.Freed = true
			_, err := tx.Exec(ctx, `DELETE FROM note`)
			return err
		}))
	}
	must(t, f.Close())
	if small := size(); small > large/2 || small < (minFree-maxShrink)*PageSize {
		t.Errorf("got %d bytes of %d before, want less than half, and more than what stays free", small, large)
	}
}
