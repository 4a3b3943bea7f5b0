package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

func TestACorruptLedgerIsSetAsideAndTheMirrorGoesOn(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	m := newManager(s)
	m.startAtWork()
	flood := s.pour(100)
	hook.awaitMore(t, 800) // long enough for a mirror amid the flood
	m.kill()
	corrupt(t, filepath.Join(m.dataDir, outbox.FileName))
	m.start()
	hook.awaitMore(t, 100)
	expected := flood.end()
	s.awaitAll(hook, expected)
	s.awaitOperatorEvent(v1alpha1.ReasonOutboxReset)
	if aside, err := filepath.Glob(filepath.Join(m.dataDir, "*corrupt*")); err != nil || len(aside) == 0 {
		t.Errorf("nothing was set aside: %q %v", aside, err)
	}
	s.conclude(len(m.killed), expected)
	s.assertExplained(hook, m.killed)
}

// corrupt overwrites a database with what is none; the log beside it would
// otherwise mend it.
func corrupt(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Repeat([]byte("spilt coffee "), int(info.Size())/13+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file + "-wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
