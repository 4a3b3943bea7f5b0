package objects

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Any sequence of writes, disconnections, restarts, failed commits, compactions, failovers and
// other needs of alarms gives the changes of one run without interruption. After a compaction in
// a gap, and if other fields are needed, the changes of each object in the gap are one. The same
// applies after a watch that the API server closes early without an entry, because the position
// can then be expired.
//
// In a failover, the disk is lost, and another replica begins at the position of the checkpoint.
// It reports later changes again. Changes are lost only if that position is compacted.
func TestAnySequenceGivesTheChangesOfOneRun(t *testing.T) {
	seeds := []uint64{1191} // a watch is closed early
	for seed := range uint64(300) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSequence(t, seed).run() })
		})
	}
}

// sequence is a random sequence of operations.
type sequence struct {
	*scene
	random *rand.Rand
	// first is the position of the baseline.
	first uint64
	// compacts is true if the sequence compacts the history, reshapes if alarms need other fields
	// in between, fails if other replicas take over.
	compacts, reshapes, fails bool
	next                      int

	// saved are the streams of the checkpoints, oldest first. former are the stores of the
	// replicas before this one.
	saved  []outbox.Stream
	former []*store
}

func newSequence(t *testing.T, seed uint64) *sequence {
	s := &scene{t: t, api: newAPI(), store: newStore(), needs: need(t, deployments, "spec.value")}
	return &sequence{scene: s, random: rand.New(rand.NewPCG(seed, 7)), compacts: seed%3 != 0, reshapes: seed%4 < 2, fails: seed%5 < 3}
}

func (s *sequence) run() {
	for range 5 {
		s.write()
	}
	s.begin()
	settle()
	s.first = s.store.stream().Position
	s.save()
	for range 60 {
		s.operate()
	}
	s.store.with(func() { s.store.fail = nil })
	settle()
	settle()
	s.stop()
	s.check()
}

func (s *sequence) begin() {
	s.source, s.stop = run(s.t, s.api, s.store, s.store.commit, s.needs)
}

func (s *sequence) operate() {
	switch n := s.random.IntN(100); {
	case n < 60:
		s.write()
	case n < 70:
		time.Sleep(time.Duration(s.random.IntN(400)) * time.Millisecond)
	case n < 78:
		s.disconnect()
	case n < 86:
		s.restart()
	case n < 90 && s.compacts:
		s.compact()
	case n < 92 && s.reshapes:
		s.reshape()
	case n < 93 && s.fails:
		s.failover()
	case n < 94:
		s.save()
	case n < 96:
		s.store.with(func() { s.store.fail = errors.New("disk") })
	default:
		s.store.with(func() { s.store.fail = nil })
		synctest.Wait()
	}
}

// reshape changes what alarms need. An Alarm or a ClusterAlarm always needs spec.value of the
// objects of team.
func (s *sequence) reshape() {
	s.needs = Needs{}
	by := everywhere
	if s.random.IntN(2) == 0 {
		by = kube.Key{Kind: alarm.KindAlarm, Namespace: "team"}
	}
	s.needs.Add(deployments, shape(s.t, "spec.value"), by)
	for _, namespace := range []string{"team", "other"} {
		if s.random.IntN(2) == 0 {
			s.needs.Add(deployments, shape(s.t, "spec.unset"), kube.Key{Kind: alarm.KindAlarm, Namespace: namespace})
		}
	}
	s.source.SetNeeds(s.needs)
}

// restart stops the source, writes, and starts another one.
func (s *sequence) restart() {
	s.stop()
	for range s.random.IntN(5) {
		s.write()
	}
	if s.compacts && s.random.IntN(2) == 0 {
		s.compact()
	}
	s.begin()
}

// save writes a checkpoint.
func (s *sequence) save() {
	if now := s.store.stream(); now.Position > 0 {
		s.saved = append(s.saved, now)
	}
}

// failover stops the source, loses the disk, writes, and starts another source at the last
// checkpoint. If a receiver is behind, it begins before that.
func (s *sequence) failover() {
	s.stop()
	s.former = append(s.former, s.store)
	last := s.saved[len(s.saved)-1]
	next := outbox.Stream{
		Name: last.Name, Version: last.Version, Time: last.Time, Position: last.Position,
		Delivered: progress.Offsets{Position: max(last.Position, last.Delivered.Position)},
	}
	if s.random.IntN(2) == 0 {
		next.Position = min(next.Position, s.saved[max(0, len(s.saved)-2)].Position)
	}
	s.store = newStore()
	s.store.streams[next.Name] = next
	s.save()
	for range s.random.IntN(5) {
		s.write()
	}
	if s.compacts && s.random.IntN(2) == 0 {
		s.compact()
	}
	s.begin()
}

func (s *sequence) write() {
	name := fmt.Sprintf("o%d", s.random.IntN(6))
	if s.reshapes && s.random.IntN(4) == 0 {
		name = "other." + name
	}
	switch n := s.random.IntN(10); {
	case n < 6:
		s.next++
		s.value(name, s.next)
	case n < 8:
		s.touchExisting(name)
	default:
		s.delete(name)
	}
}

func (s *sequence) touchExisting(name string) {
	s.mu.Lock()
	exists := s.at(s.position)[name] != nil
	s.mu.Unlock()
	if exists {
		s.touch(name)
	}
}

// truth returns the states of each object after the baseline, nil for a deleted one. The first
// one is its state in the baseline, if it was in there.
func (s *sequence) truth() (states map[string][]any, old map[string]bool) {
	states, old = map[string][]any{}, map[string]bool{}
	for _, w := range s.history {
		if w.object["metadata"].(map[string]any)["namespace"] != "team" {
			continue
		}
		uid := w.object["metadata"].(map[string]any)["uid"].(string)
		v := value(w.object)
		if w.kind == "DELETED" {
			v = nil
		}
		switch known := states[uid]; {
		case w.position <= s.first:
			states[uid], old[uid] = []any{v}, v != nil
		case len(known) == 0 || known[len(known)-1] != v:
			states[uid] = append(known, v)
		}
	}
	return states, old
}

// report is a state of an object that was reported at a position.
type report struct {
	state    any
	position uint64
}

// reports are those of each object, by UID.
type reports map[string][]report

func (r reports) last(uid string) any {
	if all := r[uid]; len(all) > 0 {
		return all[len(all)-1].state
	}
	return nil
}

func (s *sequence) check() {
	exact := !s.compacts && !s.reshapes && !s.closedEarly
	states, old := s.truth()
	reported := reports{}
	for uid, existed := range old {
		if existed {
			reported[uid] = []report{{states[uid][0], s.first}}
		}
	}
	var again []report
	for i, store := range append(s.former, s.store) {
		again = append(again, s.checkReplica(reported, store, i > 0)...)
	}
	for uid, want := range states {
		if want[len(want)-1] == nil && len(reported[uid]) == 0 {
			if exact && len(want) > 1 {
				s.t.Errorf("object %s was created and deleted without a change", uid)
			}
			continue // it existed in a gap only
		}
		var got []any
		for _, r := range reported[uid] {
			got = append(got, r.state)
			again = slices.DeleteFunc(again, func(a report) bool { return a == r })
		}
		if diff := cmp.Diff(want, got); diff != "" && exact {
			s.t.Errorf("states of %s (-want +got):\n%s", uid, diff)
		}
		if !isCollapsed(want, got) {
			s.t.Errorf("states of %s are %v, reported are %v", uid, want, got)
		}
	}
	if len(again) > 0 && exact {
		s.t.Errorf("the next replica did not report these in the same way: %v", again)
	}
}

// checkReplica verifies what a replica reported. It returns what replicas before reported after
// the position at which this one began, if it took over.
func (s *sequence) checkReplica(reported reports, store *store, tookOver bool) (again []report) {
	lost := false
	for i := range store.batches {
		b := &store.batches[i]
		lost = lost || b.Lost != ""
		if tookOver && b.Stream.Complete {
			again, tookOver = s.resume(reported, b.Stream.Position, lost), false
		}
		for j := range b.Changes {
			if b.Changes[j].Event.Namespace == "team" { // others are not needed all the time
				s.checkChange(reported, &b.Changes[j])
			}
		}
	}
	if lost && s.compacted == 0 {
		s.t.Error("changes are reported as lost, although nothing was compacted")
	}
	return again
}

// resume removes what was reported after a position, and returns it. If changes were lost, the
// states at the position are known without a change.
func (s *sequence) resume(reported reports, position uint64, lost bool) (removed []report) {
	now := map[string]any{}
	for _, o := range s.at(position) {
		if meta := o["metadata"].(map[string]any); meta["namespace"] == "team" {
			now[meta["uid"].(string)] = value(o)
		}
	}
	for uid, all := range reported {
		i := slices.IndexFunc(all, func(r report) bool { return r.position > position })
		if i >= 0 {
			removed, reported[uid] = append(removed, all[i:]...), slices.Clone(all[:i])
		}
		if _, exists := now[uid]; !exists {
			now[uid] = nil
		}
	}
	for uid, state := range now {
		switch {
		case reported.last(uid) == state:
		case lost:
			reported[uid] = append(reported[uid], report{state, position})
		default:
			s.t.Errorf("object %s is %v at %d without a change: %v", uid, state, position, reported[uid])
		}
	}
	return removed
}

// checkChange verifies that a change begins where the last one of the object ended.
func (s *sequence) checkChange(reported reports, o *alarm.Occurrence) {
	c, uid := o.Change, o.Event.UID
	last, now := reported.last(uid), value(c.Object)
	switch {
	case c.Operation == alarm.Create && len(reported[uid]) == 0:
	case c.Operation == alarm.Update && value(c.Old) == last && now != last:
	case c.Operation == alarm.Delete && last != nil && now == last:
		now = nil
	default:
		s.t.Errorf("%s after %v", text(o), reported[uid])
	}
	reported[uid] = append(reported[uid], report{now, o.Position})
}

// isCollapsed reports whether got contains some states of want in order, and ends with its last.
func isCollapsed(want, got []any) bool {
	at := 0
	for _, state := range got {
		i := slices.Index(want[at:], state)
		if i < 0 {
			return false
		}
		at += i + 1
	}
	return at == len(want)
}
