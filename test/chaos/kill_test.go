package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

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
