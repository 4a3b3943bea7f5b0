package chaos

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

func TestABurstToAFailingReceiverArrivesCompletelyAndOnce(t *testing.T) {
	const events = 5000
	s := newFixture(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	accept := slices.Repeat([]sink.Behaviour{sink.Accept()}, 400)
	hook.Script(accept...)
	hook.Script(sink.TooMany(1), sink.TooMany(2))
	hook.Script(accept...)
	hook.Script(sink.Status(500, "down"), sink.Status(500, "down"))
	hook.Script(accept...)
	hook.Script(sink.Hang())
	newManager(s).startReady()

	begin := time.Now()
	expected := s.burst(events)
	created := time.Since(begin)
	s.awaitAll(hook, expected)
	t.Logf("created in %v, delivered in %v", created.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	s.summarize(0, expected)
	s.assertOnce()
	if refused := len(hook.Requests()) - len(hook.Accepted()); refused != 5 {
		t.Errorf("the receiver refused %d requests, want 5: the failure was not tested", refused)
	}
}

func TestASlowReceiverDelaysNoOther(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "slow", "quick")
	slow, quick := s.receivers[0], s.receivers[1]
	slow.Always(sink.Hang())
	newManager(s).startReady()
	expected := s.burst(500)
	s.awaitAll(quick, expected)
	if n := len(slow.Accepted()); n != 0 {
		t.Errorf("the slow receiver accepted %d requests, want 0: the failure was not tested", n)
	}
	slow.Always(sink.Accept())
	s.awaitAll(slow, expected)
	s.summarize(0, expected)
	s.assertOnce()
}

func TestAnAPIServerThatIsKilledLosesNothing(t *testing.T) {
	const kills = 3
	s := newFixture(t, cluster.Shared(t), "hook")
	s.counts = true
	hook := s.receivers[0]
	m := newManager(s)
	m.startReady()
	flood := s.floodAt(150)
	for range kills {
		hook.awaitMore(t, 100)
		if err := s.Restart(t.Context(), localcluster.APIServer); err != nil {
			t.Fatal(err)
		}
	}
	hook.awaitMore(t, 100)
	expected := flood.end()
	s.awaitAll(hook, expected)
	s.summarize(kills, expected)
	s.assertOnce()
}

func TestACompactionWhileTheManagerIsDownLosesNothing(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	m := newManager(s)
	m.startReady()
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
	s.summarize(len(m.killed), expected)
	s.assertOnce(m.killed...)
}

func TestARestoreOfEtcdIsReportedAndLosesNothingThatComesAfterIt(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	m := newManager(s)
	m.startReady()
	expected := s.burst(200)
	s.awaitAll(hook, expected)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if err := s.SnapshotSave(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	// These Events are delivered and then lost by the restore. They are so many that the API
	// server cannot reach its old position before the operator detects the restore.
	expected = append(expected, s.burst(1000)...)
	s.awaitAll(hook, expected)
	if err := s.SnapshotRestore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	expected = append(expected, s.burst(50)...)
	s.awaitOperatorEvent(v1alpha1.ReasonEventPositionReset)
	expected = append(expected, s.burst(200)...)
	s.awaitAll(hook, expected)
	s.summarize(0, expected)
	s.assertOnce()
}

const kills = 10

func TestKillsLoseNothingAndRepeatOneMessageEachAtMost(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook", "other", "batched")
	s.counts = true
	s.useBatches(s.receivers[2])
	m := newManager(s)
	m.startReady()
	flood := s.floodAt(150)
	for range kills {
		// May be 0, to kill the operator while it starts.
		s.receivers[0].awaitMore(t, rand.IntN(250))
		m.kill()
		m.start()
	}
	expected := flood.end()
	for _, r := range s.receivers {
		s.awaitAll(r, expected)
	}
	s.summarize(len(m.killed), expected)
	s.assertOnce(m.killed...)
	s.awaitMatched(flood.increases)
	several := slices.ContainsFunc(s.receivers[2].Accepted(), func(r sink.Request) bool { return len(sink.Batch(r)) > 1 })
	if !several {
		t.Error("no request contained several messages: batches were not tested")
	}
}

// useBatches makes a receiver get batches, and answer only after 50 ms, so that messages wait.
func (s *fixture) useBatches(r *receiver) {
	s.t.Helper()
	r.Always(sink.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) })))
	var object v1alpha1.ClusterAlarmReceiver
	if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: s.namespace + "-" + r.name}, &object); err != nil {
		s.t.Fatal(err)
	}
	object.Spec.Webhook.Format = v1alpha1.WebhookCloudEvents
	object.Spec.Webhook.Batch = &v1alpha1.WebhookBatch{MaxMessages: 50}
	if err := s.Client.Update(s.t.Context(), &object); err != nil {
		s.t.Fatal(err)
	}
}

// awaitMatched waits until the status of the alarm shows that n occurrences matched.
func (s *fixture) awaitMatched(n int) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(func() (int64, error) {
		var alarm v1alpha1.ClusterAlarm
		err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: s.namespace}, &alarm)
		return alarm.Status.Matched, err
	}).WithTimeout(patience).Should(gomega.BeEquivalentTo(n), "status.matched of the alarm")
}

func TestAKillExplainsOneRepetition(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	killed := func(begun, gone int) kill { return kill{begun: at(begun), gone: at(gone)} }
	repeated := func(id string, first, again int) repetition {
		return repetition{id: id, first: at(first), again: at(again)}
	}
	kills := []kill{killed(10, 12), killed(20, 22)}
	for name, tc := range map[string]struct {
		repetitions []repetition
		want        []string
	}{
		"one at each kill":              {[]repetition{repeated("a", 9, 15), repeated("b", 19, 25)}, nil},
		"recorded after the kill":       {[]repetition{repeated("a", 11, 15)}, nil},
		"between the kills":             {[]repetition{repeated("a", 13, 15)}, []string{"a"}},
		"two at one kill":               {[]repetition{repeated("a", 8, 15), repeated("b", 9, 16)}, []string{"b"}},
		"twice, at a kill each":         {[]repetition{repeated("a", 9, 15), repeated("a", 15, 25)}, nil},
		"one that either kill explains": {[]repetition{repeated("a", 8, 25), repeated("b", 9, 15)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, again := range unexplained(tc.repetitions, kills) {
				got = append(got, again.id)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexplained repetitions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKillsWithDiskLossLoseNothingAndRepeatOnlyTheLastSeconds(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook", "dead")
	s.counts = true
	hook, dead := s.receivers[0], s.receivers[1]
	dead.Always(sink.Hang())
	m := newManager(s)
	m.startReady()
	const perSecond = 60
	flood := s.floodAt(perSecond)
	for i := range kills {
		count := rand.IntN(5 * perSecond)
		if i == kills-1 {
			count = 13 * perSecond // longer than the interval of the checkpoint
		}
		hook.awaitNew(t, count)
		m.kill()
		m.loseDisk()
		m.start()
	}
	expected := flood.end()
	s.awaitAll(hook, expected)
	if n := len(dead.Accepted()); n != 0 {
		t.Fatalf("the receiver that never answers accepted %d requests, want 0: the failure was not tested", n)
	}
	dead.Always(sink.Accept())
	s.awaitAll(dead, expected)
	s.summarize(len(m.killed), expected)
	s.assertExplained(hook, m.killed)
	s.assertExplained(dead, nil)
}

// assertExplained fails if an Event was sent twice and no kill explains it. A kill explains
// Events after the position of the last checkpoint. A test in internal/alarm/pipeline checks
// that the checkpoint is written every 5 s.
func (s *fixture) assertExplained(r *receiver, kills []kill) {
	s.t.Helper()
	var left []repetition
	var longest time.Duration
	for _, again := range r.repetitions() {
		position, known := positions.Load(again.id)
		if !known {
			s.t.Errorf("the position of Event %s is unknown", again.id)
			continue
		}
		i := slices.IndexFunc(kills, func(k kill) bool { return k.explains(again, r.key, position.(uint64)) })
		if i < 0 {
			left = append(left, again)
			continue
		}
		longest = max(longest, kills[i].begun.Sub(again.first))
	}
	s.t.Logf("receiver %s: repeated Events arrived at most %v before a kill", r.name, longest.Round(time.Millisecond))
	s.assertNone(r, left)
}

// takeover is the time limit until another replica delivers. It waits at most 15 s for the
// lease, which a test in internal/operator checks. The rest is for a busy machine.
const takeover = time.Minute

func TestAnotherReplicaTakesOverAndTheFirstOneTakesBack(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook")
	s.counts = true
	hook := s.receivers[0]
	leader := newManager(s, "--leader-elect", logElection)
	leader.startReady()
	standby := newReplica(s, "--leader-elect", logElection)
	standbySeesLease := standby.logsAgain(leaseIsHeld)
	standby.start()
	flood := s.floodAt(50)
	var killed []kill
	for range 3 {
		hook.awaitMore(t, 150)
		gomega.NewWithT(t).Eventually(standbySeesLease).WithTimeout(patience).Should(gomega.BeTrue(), "the standby has seen the lease of the leader")
		leader.endTerm()
		last := leader.killed[len(leader.killed)-1]
		killed = append(killed, last)
		assertDeliversAgain(t, hook, last)
		leader, standby = standby, leader
		standbySeesLease = standby.logsAgain(leaseIsHeld)
		standby.start()
	}
	expected := flood.end()
	s.awaitAll(hook, expected)
	s.summarize(len(killed), expected)
	s.assertExplained(hook, killed)
}

// logElection makes a replica log leaseIsHeld each time it has read the lease of another
// replica.
const (
	logElection = "-vvvv"
	leaseIsHeld = "Lease is held by and has not yet expired"
)

// endTerm kills a leader. A stalled machine may already have cost the leader its lease. This
// then counts as the kill, with an unknown checkpoint.
func (m *manager) endTerm() {
	m.t.Helper()
	if m.process.Alive() || !strings.Contains(m.log.String(), "leader election lost") {
		m.kill()
		return
	}
	m.t.Log("the leader lost its lease before the kill")
	m.end()
	m.killed = append(m.killed, kill{begun: m.process.EndedAt().Add(-takeover), gone: time.Now()})
}

// assertDeliversAgain waits for the first request after a kill.
func assertDeliversAgain(t *testing.T, r *receiver, last kill) {
	t.Helper()
	var took time.Duration
	if !r.Wait(patience, func(requests []sink.Request) bool {
		took = requests[len(requests)-1].Received.Sub(last.begun)
		return requests[len(requests)-1].Received.After(last.gone)
	}) {
		t.Fatalf("no request within %v after the kill", patience)
	}
	t.Logf("delivered again after %v", took.Round(time.Millisecond))
	if took > takeover {
		t.Errorf("the first delivery came %v after the kill, want at most %v", took, takeover)
	}
}

// A process that is paused, for example with its machine, leads on when it resumes: it learns only
// then that another replica has taken over.
func TestALeaderThatWasPausedRepeatsNoMessages(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	hook.Always(sink.Status(http.StatusServiceUnavailable, "down"))
	leader := newManager(s, "--leader-elect", logElection)
	leader.startReady()
	standby := newReplica(s, "--leader-elect", logElection)
	standbySeesLease := standby.logsAgain(leaseIsHeld)
	standby.start()
	expected := s.burst(500)
	g := gomega.NewWithT(t)
	g.Eventually(standbySeesLease).WithTimeout(patience).Should(gomega.BeTrue(), "the standby has seen the lease of the leader")
	newest, err := s.checkpoint()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Eventually(func() (bool, error) { // the checkpoint contains that the messages wait
		now, err := s.checkpoint()
		settled := now.Position == newest.Position && now.Position > 0 && len(now.Behind) > 0
		newest = now
		return settled, err
	}).WithTimeout(patience).WithPolling(6 * time.Second).Should(gomega.BeTrue())
	paused := kill{begun: time.Now(), checkpoint: newest}
	g.Expect(leader.process.Signal(syscall.SIGSTOP)).To(gomega.Succeed())
	hook.Always(sink.Accept())
	s.awaitAll(hook, expected)
	g.Expect(leader.process.Signal(syscall.SIGCONT)).To(gomega.Succeed())
	g.Eventually(leader.process.Alive).WithTimeout(patience).Should(gomega.BeFalse(), "the former leader ends")
	leader.end()
	paused.gone = time.Now()
	s.summarize(1, expected)
	s.assertOnce(paused)
}

func TestACorruptOutboxIsSetAsideAndDeliveryContinuesFromTheCheckpoint(t *testing.T) {
	s := newFixture(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	m := newManager(s)
	m.startReady()
	flood := s.floodAt(100)
	hook.awaitMore(t, 800) // enough for a checkpoint during the flood
	m.kill()
	corrupt(t, filepath.Join(m.dataDir, file.Name))
	m.start()
	hook.awaitMore(t, 100)
	expected := flood.end()
	s.awaitAll(hook, expected)
	s.awaitOperatorEvent(v1alpha1.ReasonOutboxReset)
	if kept, err := filepath.Glob(filepath.Join(m.dataDir, "*corrupt*")); err != nil || len(kept) == 0 {
		t.Errorf("got damaged files %q, error %v, want at least one file", kept, err)
	}
	s.summarize(len(m.killed), expected)
	s.assertExplained(hook, m.killed)
}

// corrupt overwrites a database with text. It also deletes the write-ahead log, which could
// repair the database.
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
