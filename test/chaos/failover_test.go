package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

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
