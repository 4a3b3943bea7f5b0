package outbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
)

// asides lists what was set aside in dir.
func asides(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, FileName+setAsideInfix+"*"))
	must(t, err)
	return names
}

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
			l := open(t, dir)
			commit(t, l, "r", 1, 500)
			must(t, l.Close())
			path := filepath.Join(dir, FileName)
			file, err := os.ReadFile(path)
			must(t, err)
			damaged := damage(file)
			must(t, os.WriteFile(path, damaged, 0o600))

			l = open(t, dir)
			recovered := l.Recovered()
			if recovered == nil || !errors.Is(recovered.Cause, ErrCorrupt) {
				t.Fatalf("recovered: got %v, want ErrCorrupt as the cause", recovered)
			}
			if got, err := os.ReadFile(recovered.Path); err != nil || !bytes.Equal(damaged, got) {
				t.Errorf("the file set aside is not the damaged one (%v)", err)
			}
			if diff := cmp.Diff(Snapshot{Backlogs: map[string]Backlog{}}, l.Snapshot()); diff != "" {
				t.Error(diff)
			}
			commit(t, l, "r", 1, 10)
			if err := deliver(l, "r"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSoundFileIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		l := open(t, dir)
		commit(t, l, "r", 1, 10)
		if got := l.Recovered(); got != nil {
			t.Errorf("recovered: got %v, want nil", got)
		}
		must(t, l.Close())
	}
}

func TestWALIsSetAsideWithItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	must(t, os.WriteFile(path, []byte("garbage"), 0o600))
	must(t, os.WriteFile(path+"-wal", []byte("its WAL"), 0o600))
	recovered := open(t, dir).Recovered()
	if got, err := os.ReadFile(recovered.Path + "-wal"); string(got) != "its WAL" {
		t.Errorf("got %q, %v, want the WAL beside %s", got, err, recovered.Path)
	}
}

func TestOnlyTheNewestDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	clock := testingclock.NewFakePassiveClock(day)
	var want []string
	for range maxSetAside + 2 {
		must(t, os.WriteFile(filepath.Join(dir, FileName), []byte("garbage"), 0o600))
		l, err := Open(context.Background(), dir, WithClock(clock))
		must(t, err)
		want = append(want, l.Recovered().Path)
		must(t, l.Close())
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if diff := cmp.Diff(want[2:], asides(t, dir)); diff != "" {
		t.Error(diff)
	}
}
