package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Two replicas lead in turn, crash wherever they are, lose their disks; receivers
// are slow or dead for long. In the end each has got everything, and no more than
// once but for what was in flight, or not yet in the mirror when the disk was
// lost.
func TestNothingIsLostAndLittleRepeatedWhateverCrashes(t *testing.T) {
	const worlds = 40
	var kills, duplicates int
	for seed := range uint64(worlds) {
		if t.Failed() {
			break // the others would fail in the same way
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			k := live(t, w)
			kills += k
			duplicates += w.check()
		})
	}
	t.Logf("%d kills, 0 losses, %d duplicates, all of them within what is promised", kills, duplicates)
}

// live lets a world's replicas come and go, and returns how often one was killed.
func live(t *testing.T, w *world) (kills int) {
	ctx := t.Context()
	replicas := []*replica{{w: w, dir: t.TempDir()}, {w: w, dir: t.TempDir()}}
	first := replicas[0].lead(ctx)
	first.read(ctx, 0) // from now: what happens from here on counts
	first.crash()

	for range 12 {
		kills++
		w.happen(w.rand.IntN(12))
		r := replicas[w.rand.IntN(len(replicas))]
		if w.rand.IntN(3) == 0 {
			r.dir = t.TempDir()
		}
		leader := r.lead(ctx)
		for range w.rand.IntN(4) {
			leader.read(ctx, w.rand.IntN(8))
			leader.deliver(ctx, "quick", w.rand.IntN(10), false)
			leader.deliver(ctx, "slow", w.rand.IntN(3), false)
			leader.deliver(ctx, "often", w.rand.IntN(5), false)
			if w.quickly {
				leader.deliverAll(ctx)
			}
			if w.rand.IntN(3) == 0 {
				must(t, leader.writeCheckpoint(ctx))
			}
		}
		leader.deliver(ctx, "quick", 1, w.rand.IntN(2) == 0)
		leader.deliverGroups(ctx, 1+w.rand.IntN(3), w.rand.IntN(2) == 0)
		leader.crash()
	}
	last := replicas[w.rand.IntN(len(replicas))].lead(ctx)
	defer last.crash()
	last.read(ctx, len(w.events))
	w.clock.Step(time.Hour)
	last.deliverAll(ctx)
	return kills
}

// check compares what receivers got with what happened, and counts repetitions.
func (w *world) check() (duplicates int) {
	w.t.Helper()
	for _, receiver := range append(w.receivers, "grouped") {
		uid := w.compiled.UID
		if receiver == "grouped" {
			uid = w.grouped.UID
		}
		for i := range w.events {
			key := receiver + "/" + alarm.Key(receiver, uid, &w.events[i])
			got := w.got[key]
			if got == 0 {
				w.t.Errorf("%s never got the Event at %d", receiver, w.events[i].Position)
			}
			if got > 1+w.again[key] {
				w.t.Errorf("%s got the Event at %d %d times, want at most %d", receiver, w.events[i].Position, got, 1+w.again[key])
			}
			duplicates += max(0, got-1)
		}
	}
	for i := range w.events {
		key := "often/" + alarm.Key("often", w.often.UID, &w.events[i])
		got, want := w.got[key], w.oftenEnough(i)
		if want != (got > 0) || got > 1+w.again[key] {
			w.t.Errorf("the Event at %d, which reaches the threshold: %t, was sent %d times", w.events[i].Position, want, got)
		}
		duplicates += max(0, got-1)
	}
	return duplicates
}

// oftenEnough says whether an Event reaches the threshold, by all that happened.
func (w *world) oftenEnough(i int) bool {
	var n int64
	for _, occ := range w.events[:i+1] {
		if w.events[i].ObservedAt.Sub(occ.ObservedAt) <= oftenWithin*time.Second {
			n += occ.Increase
		}
	}
	return n >= oftenCount
}
