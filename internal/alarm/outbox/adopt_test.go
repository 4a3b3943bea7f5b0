package outbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	unknownTeam = "AlarmReceiver/shop/team@namespace:shop-uid"
	team        = "AlarmReceiver/shop/team@uid"
)

// Everything that waits must survive the change of the name, and be counted for the new one,
// also after a restart.
func TestAdoptedEntriesBelongToTheNewReceiverAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s, unknownTeam, 1, 2)
	late := parkedAt(3, "web")
	late.Receivers = map[string]string{unknownTeam: "3"}
	must(t, s.Commit(t.Context(), Batch{Position: 3, Parked: []Parked{late}}))
	both := append(entries(unknownTeam, 4, 1), entries(team, 4, 2)...) // 4 for both
	must(t, s.Commit(t.Context(), Batch{Position: 5, Entries: both}))
	for range 2 { // a crash can repeat it
		err := s.Adopt(t.Context(), unknownTeam, team)
		must(t, err)
	}
	check := func(when string) {
		t.Helper()
		if got := s.Backlog(team); got.Entries != 4 || got.Lowest != 1 || s.Backlog(unknownTeam).Entries != 0 || len(s.Unadopted()) > 0 {
			t.Errorf("%s: %+v wait, and %v for the name", when, got, s.Unadopted())
		}
		if diff := cmp.Diff(map[string]Held{team: {"3": 3}}, awaitedKeys(t, s)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	check("adopted")
	must(t, s.Close())
	s = open(t, dir)
	check("after a restart")
}

// A prepared message contains all entries of its receiver up to an ID. Entries that are older
// would become a part of it, and would be acknowledged without being sent.
func TestNothingIsAdoptedWhileANewerMessageIsPrepared(t *testing.T) {
	s := open(t, t.TempDir())
	commit(t, s, unknownTeam, 1, 1)
	commit(t, s, team, 2, 1)
	a := prepare(t, s, team, 2)
	err := s.Adopt(t.Context(), unknownTeam, team)
	must(t, err)
	_, err = s.Acknowledge(t.Context(), a)
	must(t, err)
	err = s.Adopt(t.Context(), unknownTeam, team)
	must(t, err)
	if got := s.Backlog(team).Entries; got != 1 {
		t.Errorf("%d entries wait, want the one that was not sent", got)
	}
}

// Each receiver of a name has its own progress. Before it exists, its name in this namespace has one.
func TestOffsetsBelongToOneReceiver(t *testing.T) {
	const former, elsewhere = "AlarmReceiver/shop/team@former", "AlarmReceiver/shop/team@namespace:former-uid"
	for name, tc := range map[string]struct {
		offsets DeliveredOffsets
		want    bool
	}{
		"nothing is known":               {DeliveredOffsets{Default: 20}, true},
		"the former one is behind":       {DeliveredOffsets{Default: 20, Receivers: map[string]uint64{former: 5}}, true},
		"it waited for the former one":   {DeliveredOffsets{Default: 20, Waiting: map[string]Held{former: {"key": 10}}}, true},
		"the former one is ahead":        {DeliveredOffsets{Default: 5, Receivers: map[string]uint64{former: 20}}, false},
		"the receiver is behind":         {DeliveredOffsets{Default: 20, Receivers: map[string]uint64{team: 5}}, false},
		"the receiver is ahead":          {DeliveredOffsets{Default: 5, Receivers: map[string]uint64{team: 20}}, true},
		"it waits for the receiver":      {DeliveredOffsets{Default: 20, Waiting: map[string]Held{team: {"key": 10}}}, false},
		"the name is behind":             {DeliveredOffsets{Default: 20, Receivers: map[string]uint64{unknownTeam: 5, team: 15}}, false},
		"it waits for the name":          {DeliveredOffsets{Default: 20, Waiting: map[string]Held{unknownTeam: {"key": 10}}}, false},
		"another occurrence waits there": {DeliveredOffsets{Default: 20, Waiting: map[string]Held{unknownTeam: {"other": 10}}}, true},
		"it is of a former namespace":    {DeliveredOffsets{Default: 20, Receivers: map[string]uint64{elsewhere: 5}, Waiting: map[string]Held{elsewhere: {"key": 10}}}, true},
	} {
		if got := tc.offsets.Covers("key", 10, team, unknownTeam); got != tc.want {
			t.Errorf("%s: covered %v, want %v", name, got, tc.want)
		}
		renamed := tc.offsets.Renamed(map[string]string{unknownTeam: team})
		if got := renamed.Covers("key", 10, team); got != tc.want {
			t.Errorf("%s: covered under its own ID %v, want %v", name, got, tc.want)
		}
	}
}

// A message that is set aside goes before the later ones about its object, also before those that
// waited for the name of its receiver.
func TestAdoptedEntriesWaitBehindAMessageThatIsSetAside(t *testing.T) {
	about := func(receiver string, from int, subjects ...string) []Entry {
		all := entries(receiver, from, len(subjects))
		for i := range all {
			all[i].Subject = subjects[i]
		}
		return all
	}
	s := open(t, t.TempDir())
	must(t, s.Commit(t.Context(), Batch{Position: 2, Entries: about(team, 1, "a", "b")}))
	a := prepare(t, s, team, 1)
	if moved, err := s.SetAside(t.Context(), a); !moved || err != nil {
		t.Fatalf("moved %t, %v", moved, err)
	}
	must(t, s.Commit(t.Context(), Batch{Position: 4, Entries: about(unknownTeam, 3, "a", "c")}))
	err := s.Adopt(t.Context(), unknownTeam, team)
	must(t, err)
	if diff := cmp.Diff([]uint64{2, 4}, pending(t, s, team)); diff != "" {
		t.Errorf("in the main lane: %s", diff)
	}
	aside, err := s.Pending(t.Context(), team, a.Lane, 0, 10)
	must(t, err)
	if len(aside) != 1 || aside[0].Position != 3 {
		t.Errorf("behind the message that is set aside: %v", aside)
	}
	if got := awaitedKeys(t, s)[team]["3"]; got != 3 {
		t.Errorf("the checkpoint lists %v", awaitedKeys(t, s))
	}
	if got := s.Backlog(team); got.Entries != 4 || got.Lowest != 2 {
		t.Errorf("backlog %+v", got)
	}
}
