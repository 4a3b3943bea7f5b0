package pipeline

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/testing/size"
)

// Two replicas lead in turn, crash at any time and lose their disks. Receivers are slow or
// do not answer. In the end, each receiver must have everything. It may have something
// twice only if that was in flight, or not in the checkpoint when the disk was lost.
func TestCrashesLoseNothingAndRepeatLittle(t *testing.T) {
	var kills, duplicates, aside int
	seeds := []uint64{100} // an occurrence that is parked on two disks, and routed to a receiver that has it
	for seed := range uint64(size.Choose(t, 5, 40, 1_000, "simulations")) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		if t.Failed() {
			break // the others would fail in the same way
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			kills += runReplicas(t, s, 2)
			duplicates += s.check()
			aside += s.setAside
			s.checkEnds()
		})
	}
	t.Logf("%d kills, %d messages set aside, 0 losses, %d duplicates, all of them as documented", kills, aside, duplicates)
}

// runReplicas starts and kills replicas, and returns the number of kills.
func runReplicas(t *testing.T, s *simulation, n int) (kills int) {
	ctx := t.Context()
	var replicas []*replica
	for range n {
		replicas = append(replicas, &replica{s: s, dir: t.TempDir()})
	}
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
			leader.retry(ctx)
			leader.deliver(ctx, "picky", s.rand.IntN(5), false)
			leader.deliver(ctx, "team-0", s.rand.IntN(5), false)
			leader.deliver(ctx, "other", s.rand.IntN(2), false)
			if s.quickOnly {
				leader.deliverAll(ctx)
			}
			if s.rand.IntN(3) == 0 {
				leader.writeStatuses(ctx)
				must(t, leader.writeCheckpoint(ctx))
			}
		}
		leader.deliver(ctx, "quick", 1, s.rand.IntN(2) == 0)
		leader.deliver(ctx, "picky", 1, s.rand.IntN(2) == 0)
		leader.deliverGroups(ctx, 1+s.rand.IntN(3), s.rand.IntN(2) == 0)
		leader.crash()
	}
	last := replicas[s.rand.IntN(len(replicas))].lead(ctx)
	defer last.crash()
	last.read(ctx, len(s.events)+1)
	s.reliable = true
	last.retry(ctx)
	if n := last.Outbox.Size().Parked; n > 0 {
		t.Errorf("%d occurrences wait although all objects can be read", n)
	}
	last.deliverAll(ctx)
	for range 3 { // what came after a message of a group waits for the next one
		s.clock.Step(time.Hour)
		last.Outbox.ReadUpTo(s.clock.Now())
		last.deliverAll(ctx)
	}
	last.writeStatuses(ctx)
	return kills
}

// checkEnds compares the ends of groups with the Events. A group ends after its last Event,
// and not after an Event that another one follows soon.
func (s *simulation) checkEnds() {
	s.t.Helper()
	next := map[string]*alarm.Occurrence{}
	for i := len(s.events) - 1; i >= 0; i-- {
		occ := &s.events[i]
		key := "grouped/" + outbox.EndKey(alarm.Key("grouped", s.grouped.UID, occ))
		after, name := next[occ.Event.Regarding.Name], occ.Event.Regarding.Name
		next[name] = occ
		got := s.got[key]
		switch {
		case after == nil && got == 0:
			s.t.Errorf("the group %s has no end", name)
		case after != nil && after.ObservedAt.Sub(occ.ObservedAt) <= quietFor*time.Second && got > 0:
			s.t.Errorf("the group %s ends at %d, though something happens %s later", name, occ.Position, after.ObservedAt.Sub(occ.ObservedAt))
		case got > 1+s.again[key]:
			s.t.Errorf("the group %s ends %d times at %d, want at most %d", name, got, occ.Position, 1+s.again[key])
		}
	}
}

// The receivers slow and dead are behind when the process is killed or the disk is lost.
func TestCountsSurviveKillsAndLostDisks(t *testing.T) {
	for seed := range uint64(size.Choose(t, 5, 40, 1_000, "simulations")) {
		if t.Failed() {
			break
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			s := newSimulation(t, seed)
			runReplicas(t, s, 1)
			var want int64
			for i := range s.events {
				want += s.events[i].Increase
			}
			for _, subject := range []string{"ClusterAlarm//all", "ClusterAlarm//often", "ClusterAlarm//grouped", "quick", "slow", "dead", "grouped"} {
				if got := s.statuses[subject]; got == nil || got.Matched != want {
					t.Errorf("%s: %+v, want %d matched", subject, got, want)
				}
			}
			if got := s.statuses["dead"]; got.Delivered < want {
				t.Errorf("the receiver dead got everything in the end, and %d of %d are counted", got.Delivered, want)
			}
		})
	}
}

// check compares what receivers got with the Events, and returns the number of duplicates.
func (s *simulation) check() (duplicates int) {
	s.t.Helper()
	s.checkOrder()
	for _, receiver := range append(s.receivers, "grouped", "picky", "by-team") {
		uid := s.compiled.UID
		if !slices.Contains(s.receivers, receiver) {
			uid = receiver // the alarm has the same name
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
	duplicates += s.checkRouted()
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

// checkRouted checks that only the receiver that the label chooses got an Event, and returns the
// number of duplicates.
func (s *simulation) checkRouted() (duplicates int) {
	s.t.Helper()
	for i := range s.events {
		for _, receiver := range routedTo {
			key := receiver + "/" + alarm.Key(receiver, s.routed.UID, &s.events[i])
			least, most := 0, 0
			if routedTo[s.events[i].Event.Regarding.Name] == receiver {
				least, most = 1, 1+s.again[key]
			}
			if got := s.got[key]; got < least || got > most {
				s.t.Errorf("%s got the Event at %d of the routed alarm %d times, want %d to %d", receiver, s.events[i].Position, got, least, most)
			}
			duplicates += max(0, s.got[key]-1)
		}
	}
	return duplicates
}

// checkOrder checks that the occurrences of each object came in order for an alarm that needs
// the object.
func (s *simulation) checkOrder() {
	s.t.Helper()
	last := map[string]uint64{}
	for _, key := range s.sequence {
		for i := range s.events {
			occ := &s.events[i]
			if key != "picky/"+alarm.Key("picky", s.picky.UID, occ) {
				continue
			}
			object := occ.Event.Regarding.Name
			if occ.Position < last[object] {
				s.t.Errorf("%s: %d came after %d", object, occ.Position, last[object])
			}
			last[object] = occ.Position
		}
	}
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
