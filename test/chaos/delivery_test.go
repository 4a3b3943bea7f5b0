package chaos

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestABurstThroughAFailingSinkArrivesWholeAndOnce(t *testing.T) {
	const events = 5000
	s := newStage(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	accept := slices.Repeat([]sink.Behaviour{sink.Accept()}, 400)
	hook.Script(accept...)
	hook.Script(sink.TooMany(1), sink.TooMany(2))
	hook.Script(accept...)
	hook.Script(sink.Status(500, "down"), sink.Status(500, "down"))
	hook.Script(accept...)
	hook.Script(sink.Hang())
	newManager(s).startAtWork()

	begin := time.Now()
	expected := s.burst(events)
	created := time.Since(begin)
	s.awaitAll(hook, expected)
	t.Logf("created in %v, delivered in %v", created.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	s.conclude(0, expected)
	s.assertOnce()
	if refused := len(hook.Requests()) - len(hook.Accepted()); refused != 5 {
		t.Errorf("the sink failed %d times, want 5: the test did not test", refused)
	}
}

func TestASlowReceiverDelaysNoOther(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "slow", "quick")
	slow, quick := s.receivers[0], s.receivers[1]
	slow.Always(sink.Hang())
	newManager(s).startAtWork()
	expected := s.burst(500)
	s.awaitAll(quick, expected)
	if n := len(slow.Accepted()); n != 0 {
		t.Errorf("the slow receiver accepted %d: the test did not test", n)
	}
	slow.Always(sink.Accept())
	s.awaitAll(slow, expected)
	s.conclude(0, expected)
	s.assertOnce()
}

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

const kills = 10

func TestKillsLoseNothingAndRepeatOneMessageEachAtMost(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook", "other")
	m := newManager(s)
	m.startAtWork()
	flood := s.pour(150)
	for range kills {
		// Also where nothing was sent yet: while it starts.
		s.receivers[0].awaitMore(t, rand.IntN(250))
		m.kill()
		m.start()
	}
	expected := flood.end()
	for _, r := range s.receivers {
		s.awaitAll(r, expected)
	}
	s.conclude(len(m.killed), expected)
	s.assertOnce(m.killed...)
}

func TestAKillExplainsOneRepetition(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	killed := func(begun, gone int) kill { return kill{begun: at(begun), gone: at(gone)} }
	came := func(id string, first, again int) repetition {
		return repetition{id: id, first: at(first), again: at(again)}
	}
	kills := []kill{killed(10, 12), killed(20, 22)}
	for name, tc := range map[string]struct {
		came []repetition
		want []string
	}{
		"one at each kill":              {[]repetition{came("a", 9, 15), came("b", 19, 25)}, nil},
		"recorded after the kill":       {[]repetition{came("a", 11, 15)}, nil},
		"between the kills":             {[]repetition{came("a", 13, 15)}, []string{"a"}},
		"two at one kill":               {[]repetition{came("a", 8, 15), came("b", 9, 16)}, []string{"b"}},
		"twice, at a kill each":         {[]repetition{came("a", 9, 15), came("a", 15, 25)}, nil},
		"one that either kill explains": {[]repetition{came("a", 8, 25), came("b", 9, 15)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, again := range unexplained(tc.came, kills) {
				got = append(got, again.id)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKillsThatCostTheDiskLoseNothingAndRepeatTheLastSecondsAtMost(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook", "dead")
	hook, dead := s.receivers[0], s.receivers[1]
	dead.Always(sink.Hang())
	m := newManager(s)
	m.startAtWork()
	const perSecond = 60
	flood := s.pour(perSecond)
	for i := range kills {
		fresh := rand.IntN(5 * perSecond)
		if i == kills-1 {
			fresh = 13 * perSecond // a life that is longer than the mirror may be old
		}
		hook.awaitFresh(t, fresh)
		m.kill()
		m.loseDisk()
		m.start()
	}
	expected := flood.end()
	s.awaitAll(hook, expected)
	if n := len(dead.Accepted()); n != 0 {
		t.Fatalf("the receiver that never answers accepted %d: the test did not test", n)
	}
	dead.Always(sink.Accept())
	s.awaitAll(dead, expected)
	s.conclude(len(m.killed), expected)
	s.assertExplained(hook, m.killed)
	s.assertExplained(dead, nil)
}

// assertExplained fails if something was sent twice without a kill that explains it:
// one before which the mirror was not yet written. That this is done every 5 s is
// tested in internal/alarm/pipeline.
func (s *stage) assertExplained(r *receiver, kills []kill) {
	s.t.Helper()
	var left []repetition
	var longest time.Duration
	for _, again := range r.repetitions() {
		position, known := positions.Load(again.id)
		if !known {
			s.t.Errorf("nobody knows the position of %s", again.id)
			continue
		}
		i := slices.IndexFunc(kills, func(k kill) bool { return k.explains(again, r.key, position.(uint64)) })
		if i < 0 {
			left = append(left, again)
			continue
		}
		longest = max(longest, kills[i].begun.Sub(again.first))
	}
	s.t.Logf("%s: what was repeated had come %v before a kill at most", r.name, longest.Round(time.Millisecond))
	s.assertNone(r, left)
}

// takeover is how long it may take until another replica delivers. It waits for the
// lease for 15 s at most, which is tested in internal/operator; the rest is for a busy
// machine.
const takeover = time.Minute

func TestAnotherReplicaTakesOverAndTheFirstOneTakesBack(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	leader := newManager(s, "--leader-elect", logElection)
	leader.startAtWork()
	standby := newReplica(s, "--leader-elect", logElection)
	campaigns := standby.saidOnceMore(leaseIsHeld)
	standby.start()
	flood := s.pour(50)
	var killed []kill
	for range 3 {
		hook.awaitMore(t, 150)
		gomega.NewWithT(t).Eventually(campaigns).WithTimeout(patience).Should(gomega.BeTrue(), "the standby campaigns")
		leader.endTerm()
		last := leader.killed[len(leader.killed)-1]
		killed = append(killed, last)
		assertDeliversAgain(t, hook, last)
		leader, standby = standby, leader
		campaigns = standby.saidOnceMore(leaseIsHeld)
		standby.start()
	}
	expected := flood.end()
	s.awaitAll(hook, expected)
	s.conclude(len(killed), expected)
	s.assertExplained(hook, killed)
}

// logElection makes a replica say leaseIsHeld each time that it has looked at the
// lease of another.
const (
	logElection = "-vvvv"
	leaseIsHeld = "Lease is held by and has not yet expired"
)

// endTerm kills a leader. If the machine stood still for so long that it lost its
// lease and ended by itself, that stands for the kill: nobody knows then what the
// mirror was.
func (m *manager) endTerm() {
	m.t.Helper()
	if m.alive() || !strings.Contains(m.log.String(), "leader election lost") {
		m.kill()
		return
	}
	m.t.Log("the leader lost its lease by itself")
	m.end()
	m.killed = append(m.killed, kill{begun: m.life.over.Add(-takeover), gone: time.Now()})
}

// assertDeliversAgain waits for the first request that comes from another than who
// was killed.
func assertDeliversAgain(t *testing.T, r *receiver, last kill) {
	t.Helper()
	var took time.Duration
	if !r.Wait(patience, func(requests []sink.Request) bool {
		took = requests[len(requests)-1].Received.Sub(last.begun)
		return requests[len(requests)-1].Received.After(last.gone)
	}) {
		t.Fatal("nobody took over")
	}
	t.Logf("delivered again after %v", took.Round(time.Millisecond))
	if took > takeover {
		t.Errorf("nothing was delivered for %v, want %v at most", took, takeover)
	}
}

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
