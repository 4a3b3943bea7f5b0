package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// disk is a disk that can become full.
type disk interface {
	// prepare is called before the first start of the manager.
	prepare(*testing.T, *manager)
	fill(*testing.T, *manager)
	free(*testing.T, *manager)
}

func TestAFullDiskLosesNothing(t *testing.T) {
	for name, d := range map[string]disk{"file system": &smallDisk{}, "limit of the process": &limitedFiles{}} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, cluster.Shared(t), "hook")
			hook := s.receivers[0]
			m := newManager(s, "--log-format", "text")
			d.prepare(t, m)
			m.startReady()
			expected := s.burst(200)
			s.awaitAll(hook, expected)

			// The receiver accepts nothing, so that the outbox must grow. Otherwise free pages of
			// the file and its log could hold many Events.
			hook.Always(sink.TooMany(1))
			d.fill(t, m)
			expected = append(expected, s.burstUntil(m.logsAgain("Events could not be committed"))...)
			hook.Always(sink.Accept())
			d.free(t, m)
			expected = append(expected, s.burst(100)...)
			s.awaitAll(hook, expected)
			s.summarize(0, expected)
			s.assertOnce()
		})
	}
}

// The leader would send what waits, but it reads nothing new.
func TestALeaderWithAFullDiskStepsDownIfAStandbyHasSpace(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	leader := newManager(s, "--leader-elect", "--log-format", "text")
	leader.startReady()
	expected := s.burst(50)
	s.awaitAll(hook, expected)
	standby := newReplica(s, "--leader-elect")
	standby.start()

	hook.Always(sink.TooMany(1)) // so that the outbox must grow
	limitFiles(t, leader, 4096)
	expected = append(expected, s.burstUntil(leader.logsAgain("Events could not be committed"))...)
	hook.Always(sink.Accept())
	expected = append(expected, s.burst(50)...)
	s.awaitAll(hook, expected)
	gomega.NewWithT(t).Eventually(leader.process.Alive).WithTimeout(patience).Should(gomega.BeFalse(), "the former leader runs")
	leader.ended = true // by itself
	s.summarize(0, expected)
}

// smallDisk is a separate file system. A large file fills it.
type smallDisk struct{ ballast string }

func (d *smallDisk) prepare(t *testing.T, m *manager) {
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting a small file system needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.end() // it has open files there
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	m.dataDir = filepath.Join(dir, "data")
	d.ballast = filepath.Join(dir, "ballast")
}

func (d *smallDisk) fill(t *testing.T, _ *manager) {
	f, err := os.Create(d.ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func (d *smallDisk) free(t *testing.T, _ *manager) {
	if err := os.Remove(d.ballast); err != nil {
		t.Fatal(err)
	}
}

// limitedFiles limits the files of the process to one page. This needs no root. The log of the
// process goes through a pipe, so it has no limit.
type limitedFiles struct{}

func (*limitedFiles) prepare(*testing.T, *manager) {}

func (*limitedFiles) fill(t *testing.T, m *manager) { limitFiles(t, m, 4096) }

func (*limitedFiles) free(t *testing.T, m *manager) { limitFiles(t, m, unix.RLIM_INFINITY) }

func limitFiles(t *testing.T, m *manager, size uint64) {
	t.Helper()
	limit := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(m.process.PID(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
}
