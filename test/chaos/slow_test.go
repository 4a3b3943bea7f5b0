package chaos

import (
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/cluster"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

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
