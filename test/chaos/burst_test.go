package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
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
