package chaos

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

const kills = 10

// lostMirror is what may be sent again when the ledger is lost: all that was sent
// since the mirror was written, which is done every 5 s, and the time that writing
// it takes on a busy machine.
const lostMirror = 5*time.Second + 3*time.Second

func TestKillsLoseNothingAndRepeatOneMessageEachAtMost(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook", "other")
	m := newManager(t, s.Cluster)
	m.startAtWork(s.Cluster)
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
	s.assertRepeated(len(m.killed))
}

func TestKillsThatCostTheDiskLoseNothingAndRepeatTheLastSecondsAtMost(t *testing.T) {
	s := newStage(t, cluster.Shared(t), "hook", "dead")
	hook, dead := s.receivers[0], s.receivers[1]
	dead.Always(sink.Hang())
	m := newManager(t, s.Cluster)
	m.startAtWork(s.Cluster)
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
	assertExcused(t, hook, m.killed, lostMirror)
	assertExcused(t, dead, nil, 0)
}

// assertExcused fails if something was sent twice without a kill that explains it.
func assertExcused(t *testing.T, r *receiver, kills []time.Time, within time.Duration) {
	t.Helper()
	var longest time.Duration
	for _, again := range r.repetitions() {
		since, killed := again.beforeKill(kills)
		longest = max(longest, since)
		if !killed || since > within {
			t.Errorf("%s got %s at %v and at %v; kills at %v", r.name, again.id, again.first, again.again, kills)
		}
	}
	t.Logf("%s: what was repeated had come %v before a kill at most", r.name, longest.Round(time.Millisecond))
}
