package outbox

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// alternating commits messages 1 to n for "r". Those with an odd position are about "a".
func alternating(t *testing.T, s *Store, n int) {
	t.Helper()
	all := entries("r", 1, n)
	for i := range all {
		all[i].Subject = []string{"a", "b"}[i%2]
	}
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: uint64(n)}, Entries: all}))
}

// pick prepares the messages about "a" among the first ones.
func pick(t *testing.T, s *Store, limit int) *Attempt {
	t.Helper()
	head, err := s.Pending(t.Context(), Query{Receiver: "r", Lane: MainLane, Limit: 1})
	must(t, err)
	rest, err := s.Pending(t.Context(), Query{Receiver: "r", Lane: MainLane, About: head[0].ID, After: head[0].ID, Limit: limit - 1})
	must(t, err)
	ids := []int64{head[0].ID}
	for _, e := range rest {
		ids = append(ids, e.ID)
	}
	a, err := s.Prepare(t.Context(), "r", MainLane, ids, "key", []byte("body"))
	must(t, err)
	return a
}

func TestAMessageCanLeaveOutOthersBetweenItsEntries(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	alternating(t, s, 8)
	a := pick(t, s, 3)
	if len(a.Entries) != 3 || a.Count != 3 {
		t.Errorf("prepared %+v, want 3 entries", a)
	}
	for _, w := range inspectReceiver(t, dir, "r", 0).Waiting {
		if want := w.Position%2 == 1 && w.Position <= 5; w.FirstTried.IsZero() == want {
			t.Errorf("message %d was tried: %t, want %t", w.Position, !want, want)
		}
	}
	must(t, s.Close())
	s = open(t, dir)
	loaded, err := s.Prepared(t.Context(), "r", MainLane)
	must(t, err)
	if diff := cmp.Diff(a, loaded); diff != "" {
		t.Error(diff)
	}
	counts, err := s.Finish(t.Context(), loaded, Outcome{})
	must(t, err)
	if diff := cmp.Diff(Counts{"Alarm/shop/rollouts": 3}, counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{2, 4, 6, 7, 8}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
	if got := s.Backlog("r"); got != (Backlog{Entries: 5, Lowest: 6}) {
		t.Errorf("backlog %+v", got)
	}
	if diff := cmp.Diff(progress.Keys{"2": 2, "4": 4}, waitingEvents(t, s)["r"]); diff != "" {
		t.Errorf("those that were left out: %s", diff)
	}
	if got := s.memory.prepared; len(got) != 0 {
		t.Errorf("the prepared messages use %v", got)
	}
}

func TestPendingAboutFindsAMessageAmongTheNext5000(t *testing.T) {
	s := open(t, t.TempDir())
	all := entries("r", 1, aboutWindow+1)
	for i := range all {
		all[i].Subject = "others"
	}
	for _, i := range []int{0, aboutWindow - 1, aboutWindow} {
		all[i].Subject = "a"
	}
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 1}, Entries: all}))
	found, err := s.Pending(t.Context(), Query{Receiver: "r", Lane: MainLane, About: 1, After: 1, Limit: 10})
	must(t, err)
	if len(found) != 1 || found[0].ID != aboutWindow {
		t.Errorf("found %+v", found)
	}
}

func TestADeliveredPartOfAMessageMakesItsOtherPartsPending(t *testing.T) {
	for offset, broken := range map[uint64]bool{0: false, 2: true} {
		s := open(t, t.TempDir())
		alternating(t, s, 6)
		pick(t, s, 3)
		must(t, s.drop(t.Context(), offsets{"": {Position: offset}}))
		got, err := s.Prepared(t.Context(), "r", MainLane)
		must(t, err)
		if (got == nil) != broken {
			t.Errorf("delivered up to %d: prepared is %+v", offset, got)
		}
		if broken {
			if diff := cmp.Diff([]uint64{3, 4, 5, 6}, pending(t, s, "r")); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestSettingAMessageOfSeveralEntriesAsideKeepsTheirOrder(t *testing.T) {
	s := open(t, t.TempDir())
	alternating(t, s, 8)
	moved, err := s.SetAside(t.Context(), pick(t, s, 2))
	if !moved || err != nil {
		t.Fatalf("moved %t, %v", moved, err)
	}
	if diff := cmp.Diff([]uint64{2, 4, 6, 8}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
	aside, err := s.Pending(t.Context(), Query{Receiver: "r", Lane: laneOf("a"), Limit: 10})
	must(t, err)
	var positions []uint64
	for i := range aside {
		positions = append(positions, aside[i].Position)
	}
	if diff := cmp.Diff([]uint64{1, 3, 5, 7}, positions); diff != "" {
		t.Error(diff)
	}
	if got := s.Backlog("r"); got.Lowest != 2 || len(waitingEvents(t, s)["r"]) != 4 {
		t.Errorf("backlog %+v, in the checkpoint %v", got, waitingEvents(t, s)["r"])
	}
}

func TestTheSearchForAnObjectReadsOnlyAnIndexOfTheOtherMessages(t *testing.T) {
	const covering = "SEARCH entry USING COVERING INDEX entry_by_tenant (receiver=? AND tenant=? AND id>?)"
	if plan := explain(t, open(t, t.TempDir()), selectPendingAbout); !strings.Contains(plan, covering) || strings.Contains(plan, "SCAN entry") {
		t.Errorf("got\n%s", plan)
	}
}

// The receiver chooses the destination of each message, for example a channel.
func TestEntriesOfADigestForOneDestinationCanBeInspected(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	alternating(t, s, 6)
	a, err := s.Prepare(t.Context(), "r", MainLane, []int64{1, 3, 4}, "key", []byte("body"))
	must(t, err)
	_, err = s.Finish(t.Context(), a, Outcome{KeepEntries: true})
	must(t, err)
	var got []int64
	for _, d := range inspectReceiver(t, dir, "r", 0).Digested {
		got = append(got, d.ID)
	}
	if diff := cmp.Diff([]int64{4, 3, 1}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{2, 5, 6}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
}
