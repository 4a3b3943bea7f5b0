package chaos

import (
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// takeover is how long it may take until another replica delivers: 15 s are
// promised, the rest is for a busy machine.
const takeover = 15*time.Second + 5*time.Second

func TestAnotherReplicaTakesOverAndTheFirstOneTakesBack(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook")
	hook := s.receivers[0]
	leader := newManager(t, s.Cluster, "--leader-elect")
	leader.startAtWork(s.Cluster)
	standby := newReplica(t, s.Cluster, "--leader-elect")
	standby.start()
	flood := s.pour(50)
	var killed []time.Time
	for range 3 {
		hook.awaitMore(t, 150)
		leader.kill()
		kill := leader.killed[len(leader.killed)-1]
		killed = append(killed, kill)
		hook.awaitMore(t, 1) // what was under way
		assertDeliversAgain(t, hook, kill)
		leader.start()
		leader, standby = standby, leader
	}
	expected := flood.end()
	s.awaitAll(hook, expected)
	s.conclude(len(killed), expected)
	assertExcused(t, hook, killed, lostMirror)
}

// assertDeliversAgain waits for the first request that comes after a second
// without any, counted from the kill.
func assertDeliversAgain(t *testing.T, r *receiver, kill time.Time) {
	t.Helper()
	since := func(request sink.Request) time.Duration { return request.Received.Sub(kill) }
	var took time.Duration
	if !r.Wait(patience, func(requests []sink.Request) bool {
		took = since(requests[len(requests)-1])
		return took > time.Second
	}) {
		t.Fatal("nobody took over")
	}
	t.Logf("delivered again after %v", took.Round(time.Millisecond))
	if took > takeover {
		t.Errorf("nothing was delivered for %v, want %v at most", took, takeover)
	}
}
