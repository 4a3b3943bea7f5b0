package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Two replicas lead in turn, crash at any time and lose their disks. Receivers are slow or
// do not answer. In the end, each receiver must have everything. It may have something
// twice only if that was in flight, or not in the checkpoint when the disk was lost.
func TestCrashesLoseNothingAndRepeatLittle(t *testing.T) {
	const simulations = 40
	var kills, duplicates int
	for seed := range uint64(simulations) {
		if t.Failed() {
			break // the others would fail in the same way
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			kills += runReplicas(t, s)
			duplicates += s.check()
		})
	}
	t.Logf("%d kills, 0 losses, %d duplicates, all of them as documented", kills, duplicates)
}

// runReplicas starts and kills replicas, and returns the number of kills.
func runReplicas(t *testing.T, s *simulation) (kills int) {
	ctx := t.Context()
	replicas := []*replica{{s: s, dir: t.TempDir()}, {s: s, dir: t.TempDir()}}
	first := replicas[0].lead(ctx)
	first.read(ctx, 0) // starts from now: later Events count
	first.crash()

	for range 12 {
		kills++
		s.addEvents(s.rand.IntN(12))
		r := replicas[s.rand.IntN(len(replicas))]
		if s.rand.IntN(3) == 0 {
			r.dir = t.TempDir()
		}
		leader := r.lead(ctx)
		for range s.rand.IntN(4) {
			leader.read(ctx, s.rand.IntN(8))
			leader.deliver(ctx, "quick", s.rand.IntN(10), false)
			leader.deliver(ctx, "slow", s.rand.IntN(3), false)
			leader.deliver(ctx, "often", s.rand.IntN(5), false)
			if s.quickOnly {
				leader.deliverAll(ctx)
			}
			if s.rand.IntN(3) == 0 {
				must(t, leader.writeCheckpoint(ctx))
			}
		}
		leader.deliver(ctx, "quick", 1, s.rand.IntN(2) == 0)
		leader.deliverGroups(ctx, 1+s.rand.IntN(3), s.rand.IntN(2) == 0)
		leader.crash()
	}
	last := replicas[s.rand.IntN(len(replicas))].lead(ctx)
	defer last.crash()
	last.read(ctx, len(s.events))
	s.clock.Step(time.Hour)
	last.deliverAll(ctx)
	return kills
}

// check compares what receivers got with the Events, and returns the number of duplicates.
func (s *simulation) check() (duplicates int) {
	s.t.Helper()
	for _, receiver := range append(s.receivers, "grouped") {
		uid := s.compiled.UID
		if receiver == "grouped" {
			uid = s.grouped.UID
		}
		for i := range s.events {
			key := receiver + "/" + alarm.Key(receiver, uid, &s.events[i])
			got := s.got[key]
			if got == 0 {
				s.t.Errorf("%s did not get the Event at %d", receiver, s.events[i].Position)
			}
			if got > 1+s.again[key] {
				s.t.Errorf("%s got the Event at %d %d times, want at most %d", receiver, s.events[i].Position, got, 1+s.again[key])
			}
			duplicates += max(0, got-1)
		}
	}
	for i := range s.events {
		key := "often/" + alarm.Key("often", s.often.UID, &s.events[i])
		got, want := s.got[key], s.reachesThreshold(i)
		if want != (got > 0) || got > 1+s.again[key] {
			s.t.Errorf("the Event at %d was sent %d times; reaches the threshold: %t", s.events[i].Position, got, want)
		}
		duplicates += max(0, got-1)
	}
	return duplicates
}

// reachesThreshold reports whether an Event reaches the threshold.
func (s *simulation) reachesThreshold(i int) bool {
	var n int64
	for _, occ := range s.events[:i+1] {
		if s.events[i].ObservedAt.Sub(occ.ObservedAt) <= oftenWithin*time.Second {
			n += occ.Increase
		}
	}
	return n >= oftenCount
}

func TestExpiredEventsSurviveOnlyOnTheLeadersDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		lost bool
		want int
	}{
		"the leader has its disk": {lost: false, want: 1},
		"the disk is lost":        {lost: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, s := t.Context(), newSimulation(t, 1)
			r := &replica{s: s, dir: t.TempDir()}
			first := r.lead(ctx)
			first.read(ctx, 0)
			s.addEvents(1)
			pending := "slow/" + alarm.Key("slow", s.compiled.UID, &s.events[0])
			first.read(ctx, 1)
			must(t, first.writeCheckpoint(ctx))
			first.crash()

			s.events = nil // they have expired
			if tc.lost {
				r.dir = t.TempDir()
			}
			next := r.lead(ctx)
			defer next.crash()
			next.read(ctx, 1)
			next.deliverAll(ctx)
			if got := s.got[pending]; got != tc.want {
				t.Errorf("sent %d times, want %d", got, tc.want)
			}
		})
	}
}
