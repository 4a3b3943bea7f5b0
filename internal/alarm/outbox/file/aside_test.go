package file

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

func TestDamagedFileIsSetAside(t *testing.T) {
	tests := map[string]func(file []byte) []byte{
		"garbage":             func(file []byte) []byte { return bytes.Repeat([]byte("garbage!"), len(file)/8) },
		"short garbage":       func([]byte) []byte { return []byte("garbage") },
		"header overwritten":  func(file []byte) []byte { return append(make([]byte, 100), file[100:]...) },
		"truncated":           func(file []byte) []byte { return file[:len(file)/2] },
		"truncated in a page": func(file []byte) []byte { return file[:len(file)-1000] },
		"page flipped": func(file []byte) []byte {
			for i := len(file) / 8192 * 4096; i < len(file)/8192*4096+4096; i++ {
				file[i] ^= 0xff
			}
			return file
		},
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir, 0)
			for range 500 { // several are in the last 1,000 bytes
				must(t, f.Write(t.Context(), "store a note", Lazy, note(strings.Repeat("a", 300))))
			}
			must(t, f.Close())
			path := filepath.Join(dir, Name)
			file, err := os.ReadFile(path)
			must(t, err)
			damaged := damage(file)
			must(t, os.WriteFile(path, damaged, 0o600))

			f = open(t, dir, 0)
			recovered := f.Recovered()
			if recovered == nil || !errors.Is(recovered.Cause, ErrCorrupt) {
				t.Fatalf("recovered: got %v, want ErrCorrupt as the cause", recovered)
			}
			if got, err := os.ReadFile(recovered.Path); err != nil || !bytes.Equal(damaged, got) {
				t.Errorf("the file set aside is not the damaged one (%v)", err)
			}
			write(t, f, "new")
			assertTexts(t, f, "new")
		})
	}
}

// The whole file is checked before, but what is read of it can be wrong too.
func TestAFileWhoseContentCannotBeLoadedIsSetAside(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, 0)
	write(t, f, "wrong")
	must(t, f.Close())
	var loaded []int
	f, err := Open(t.Context(), dir, notes, Options{Clock: testingclock.NewFakePassiveClock(day), Load: func(ctx context.Context, db *sql.DB) error {
		var n int
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM note`).Scan(&n); err != nil {
			return err
		}
		loaded = append(loaded, n)
		if n > 0 {
			return ErrCorrupt
		}
		return nil
	}})
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	if diff := cmp.Diff([]int{1, 0}, loaded); diff != "" || f.Recovered() == nil {
		t.Errorf("recovered %v: %s", f.Recovered(), diff)
	}
}

func TestSoundFileIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		f := open(t, dir, 0)
		write(t, f, "a")
		if got := f.Recovered(); got != nil {
			t.Errorf("recovered: got %v, want nil", got)
		}
		must(t, f.Close())
	}
	assertTexts(t, open(t, dir, 0), "a", "a")
}

func TestWALIsSetAsideWithItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	must(t, os.WriteFile(path, []byte("garbage"), 0o600))
	must(t, os.WriteFile(path+"-wal", []byte("its WAL"), 0o600))
	recovered := open(t, dir, 0).Recovered()
	if got, err := os.ReadFile(recovered.Path + "-wal"); string(got) != "its WAL" {
		t.Errorf("got %q, %v, want the WAL beside %s", got, err, recovered.Path)
	}
}

func TestOnlyTheNewestDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	clock := testingclock.NewFakePassiveClock(day)
	var want []string
	for range maxSetAside + 2 {
		must(t, os.WriteFile(filepath.Join(dir, Name), []byte("garbage"), 0o600))
		f, err := Open(t.Context(), dir, notes, Options{Load: noLoad, Clock: clock})
		must(t, err)
		want = append(want, f.Recovered().Path)
		must(t, f.Close())
		clock.SetTime(clock.Now().Add(time.Second))
	}
	got, err := filepath.Glob(filepath.Join(dir, Name+setAsideInfix+"*"))
	must(t, err)
	if diff := cmp.Diff(want[2:], got); diff != "" {
		t.Error(diff)
	}
}
