package chaos

import (
	"path/filepath"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestAnAPIServerThatIsKilledLosesNothing(t *testing.T) {
	const kills = 3
	s := newStage(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	m := newManager(s)
	m.startAtWork()
	flood := s.pour(150)
	for range kills {
		hook.awaitMore(t, 100)
		if err := s.Restart(t.Context(), localcluster.APIServer); err != nil {
			t.Fatal(err)
		}
	}
	hook.awaitMore(t, 100)
	expected := flood.end()
	s.awaitAll(hook, expected)
	s.conclude(kills, expected)
	s.assertOnce()
}

func TestACompactionWhileTheManagerIsDownLosesNothing(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	m := newManager(s)
	m.startAtWork()
	expected := s.burst(200)
	s.awaitAll(hook, expected)
	m.kill()
	expected = append(expected, s.burst(300)...)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.start()
	expected = append(expected, s.burst(100)...)
	s.awaitAll(hook, expected)
	s.conclude(len(m.killed), expected)
	s.assertOnce(m.killed...)
}

func TestARestoreOfEtcdIsReportedAndLosesNothingThatComesAfterIt(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	m := newManager(s)
	m.startAtWork()
	expected := s.burst(200)
	s.awaitAll(hook, expected)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if err := s.SnapshotSave(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	// Delivered, and then undone. They are many: were the API server at the same
	// position again before anybody looks, nobody could tell.
	expected = append(expected, s.burst(1000)...)
	s.awaitAll(hook, expected)
	if err := s.SnapshotRestore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	expected = append(expected, s.burst(50)...)
	s.awaitOperatorEvent(v1alpha1.ReasonEventPositionReset)
	expected = append(expected, s.burst(200)...)
	s.awaitAll(hook, expected)
	s.conclude(0, expected)
	s.assertOnce()
}
