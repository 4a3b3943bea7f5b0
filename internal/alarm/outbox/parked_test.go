package outbox

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// parkedAt returns an occurrence that waits for an object, and that receiver r must get.
func parkedAt(position uint64, object string) Parked {
	key := strconv.FormatUint(position, 10)
	return Parked{
		Key: "occurrence " + key, Alarm: "uid", Object: "shop/Pod/shop/" + object, Namespace: "shop", Tenant: "Alarm/shop/",
		Position: position, Receivers: map[string]string{"r": key}, Data: []byte("data"),
	}
}

// decide stores an entry for each occurrence that waits for an object.
func decide(t *testing.T, s *Store, object string) {
	t.Helper()
	rows, err := s.Parking.Of(t.Context(), "shop", "shop/Pod/shop/"+object, 10)
	must(t, err)
	d := Change{Unparked: rows}
	for _, p := range rows {
		for receiver := range p.Receivers {
			d.Entries = append(d.Entries, entries(receiver, int(p.Position), 1)...)
		}
	}
	must(t, s.Commit(t.Context(), d))
}

func waitingEvents(t *testing.T, s *Store) progress.Waiting {
	t.Helper()
	keys, err := s.WaitingKeys(t.Context(), nil, nil)
	must(t, err)
	return keys[""]
}

func TestAParkedOccurrenceIsStoredOnce(t *testing.T) {
	s := open(t, t.TempDir())
	again := parkedAt(1, "web")
	again.Receivers = map[string]string{"other": "1"}
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 1}, Parked: []Parked{parkedAt(1, "web"), parkedAt(1, "web"), again}}))
	if got := s.Size().Parked; got != 1 {
		t.Errorf("%d occurrences are parked, want 1", got)
	}
	if diff := cmp.Diff(progress.Waiting{"r": {"1": 1}, "other": {"1": 1}}, waitingEvents(t, s)); diff != "" {
		t.Errorf("receivers: %s", diff)
	}
}

func TestADecidedOccurrenceDoesNotLowerTheOffsetOfItsReceiver(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 1}, Parked: []Parked{parkedAt(1, "web")}}))
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 9}}))
	decide(t, s, "web")
	if got := s.Backlog("r"); got.Entries != 1 || got.Lowest != 0 || s.Size().Parked != 0 {
		t.Errorf("got %+v and %d parked occurrences, want an entry in no order of positions", got, s.Size().Parked)
	}
	if diff := cmp.Diff(progress.Waiting{"r": {"1": 1}}, waitingEvents(t, s)); diff != "" {
		t.Errorf("before it is sent: %s", diff)
	}
	_, err := s.Finish(t.Context(), prepare(t, s, "r", 1), Outcome{})
	must(t, err)
	if diff := cmp.Diff(progress.Waiting{}, waitingEvents(t, s)); diff != "" {
		t.Errorf("after it was sent: %s", diff)
	}
}

func TestOccurrencesThatAnotherLeaderDeliveredAreDropped(t *testing.T) {
	for name, tc := range map[string]struct {
		delivered progress.Offsets
		decided   bool
		want      int // parked occurrences and entries that remain
	}{
		"parked, and delivered":        {progress.Offsets{Position: 20}, false, 0},
		"parked, and waiting there":    {progress.Offsets{Position: 20, Waiting: progress.Waiting{"r": {"1": 1}}}, false, 1},
		"parked, and not reached":      {progress.Offsets{Position: 0}, false, 1},
		"decided, and delivered":       {progress.Offsets{Position: 20}, true, 0},
		"decided, and waiting there":   {progress.Offsets{Position: 20, Waiting: progress.Waiting{"r": {"1": 1}}}, true, 1},
		"decided, and not reached yet": {progress.Offsets{Position: 0}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 9}, Parked: []Parked{parkedAt(1, "web")}}))
			if tc.decided {
				decide(t, s, "web")
			}
			for range 2 { // a crash can repeat it
				must(t, s.drop(t.Context(), offsets{"": tc.delivered}))
			}
			if got := s.Size().Parked + s.Backlog("r").Entries; got != int64(tc.want) || len(waitingEvents(t, s)) != tc.want {
				t.Errorf("%d remain, want %d; waiting: %v", got, tc.want, waitingEvents(t, s))
			}
			if b := s.Backlog("r"); b.Lowest > 0 {
				t.Errorf("the entry at %d lowers the offset %d", b.Lowest, tc.delivered.Position)
			}
		})
	}
}

// This replica could read an object, and another one could not.
func TestAnEntryThatWaitsAtAnotherLeaderIsKept(t *testing.T) {
	s := open(t, t.TempDir())
	commit(t, s, "r", 1, 3)
	delivered := progress.Offsets{Position: 20, Waiting: progress.Waiting{"r": {"2": 2}}}
	for range 2 { // a crash can repeat it
		must(t, s.drop(t.Context(), offsets{"": delivered}))
	}
	kept, err := s.Pending(t.Context(), Query{Receiver: "r", Lane: MainLane, Limit: 10})
	must(t, err)
	if len(kept) != 1 || kept[0].Key != "2" || s.Backlog("r").Lowest != 0 {
		t.Errorf("got %+v, want the entry 2 in no order of positions", kept)
	}
	if diff := cmp.Diff(progress.Waiting{"r": {"2": 2}}, waitingEvents(t, s)); diff != "" {
		t.Error(diff)
	}
}

// A receiver with the name of a deleted one must not get what waited for that.
func TestADeletedReceiverGetsNothingThatWasParked(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 1}, Parked: []Parked{parkedAt(1, "web")}}))
	_, err := s.DropReceiver(t.Context(), "r")
	must(t, err)
	rows, err := s.Parking.Of(t.Context(), "shop", "shop/Pod/shop/web", 10)
	must(t, err)
	if len(rows) != 1 || len(rows[0].Receivers) > 0 || len(waitingEvents(t, s)) > 0 {
		t.Errorf("got %+v, want an occurrence without receivers", rows)
	}
}

func TestParkedOccurrencesFollowARestoreOfEtcd(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 9}, Parked: []Parked{parkedAt(9, "web")}}))
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 5, History: "restored"}}))
	rows, err := s.Parking.Of(t.Context(), "shop", "shop/Pod/shop/web", 10)
	must(t, err)
	if diff := cmp.Diff(progress.Waiting{"r": {"9": alarm.ResetPosition}}, waitingEvents(t, s)); diff != "" || rows[0].Position != alarm.ResetPosition {
		t.Errorf("position %d, want that of a reset; waiting: %s", rows[0].Position, diff)
	}
	must(t, s.Reset(t.Context(), "other", 0))
	if used := s.used(ledger.Parked, "Alarm/shop/"); used != 0 || s.Size().Parked != 0 || len(waitingEvents(t, s)) != 0 {
		t.Errorf("after a reset: %d bytes, %d occurrences", used, s.Size().Parked)
	}
}

// SQLite uses at most as many bytes for a row as it counts for.
func TestAParkedOccurrenceCountsForWhatItUses(t *testing.T) {
	skipIfShort(t)
	for _, tc := range []struct{ data, receivers int }{{100, 1}, {900, 1}, {1_100, 1}, {1_900, 1}, {3_500, 16}, {6_000, 3}} {
		s := open(t, t.TempDir())
		before, err := s.Used(t.Context())
		must(t, err)
		var rows []Parked
		var counted int64
		for i := range 1_000 {
			p := parkedAt(uint64(i+1), strings.Repeat("n", 253))
			p.Key, p.Data, p.Receivers = fmt.Sprintf("%032d", i), make([]byte, tc.data), map[string]string{}
			for r := range tc.receivers {
				p.Receivers[fmt.Sprintf("AlarmReceiver/shop/%063d", r)] = fmt.Sprintf("%032d", i)
			}
			counted += p.Bytes()
			rows = append(rows, p)
		}
		must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 1_000}, Parked: rows}))
		after, err := s.Used(t.Context())
		must(t, err)
		if used := after - before; used > counted || counted > 3*used {
			t.Errorf("%+v: %d bytes are used, %d are counted", tc, used, counted)
		}
	}
}

func TestTheSpaceOfParkedOccurrencesIsCountedAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, WithMaxBytes(16<<20))
	var rows []Parked
	for i := range 3 {
		rows = append(rows, parkedAt(uint64(i+1), fmt.Sprint("web-", i)))
	}
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 3}, Parked: rows}))
	must(t, s.Commit(t.Context(), Change{Unparked: []Parked{{ID: 2}}}))
	want := 2 * rows[0].Bytes()
	check := func(when string) {
		t.Helper()
		if used := s.used(ledger.Parked, "Alarm/shop/"); used != want {
			t.Errorf("%s: %d bytes are used, want %d", when, used, want)
		}
		if diff := cmp.Diff([]string{"shop"}, s.Parking.Namespaces()); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	check("after a decision")
	must(t, s.Close())
	s = open(t, dir, WithMaxBytes(16<<20))
	check("after a restart")
	must(t, s.Replay(t.Context(), Replay{Position: 1}))
	check("after a replay")
}

func TestALateOccurrenceOfASideLaneKeepsItsPositionInTheCheckpoint(t *testing.T) {
	s := open(t, t.TempDir())
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 5}, Parked: []Parked{parkedAt(5, "web")}}))
	e := entries("r", 6, 2)
	e[0].Subject, e[1].Subject = "web", "other"
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 7}, Entries: e}))
	if moved, err := s.SetAside(t.Context(), prepare(t, s, "r", 1)); !moved || err != nil {
		t.Fatal(moved, err)
	}
	must(t, s.Commit(t.Context(), Change{Events: &EventStep{Position: 100}}))
	rows, err := s.Parking.Of(t.Context(), "shop", "shop/Pod/shop/web", 10)
	must(t, err)
	late := entries("r", 5, 1)[0]
	late.Subject = "web"
	must(t, s.Commit(t.Context(), Change{Unparked: rows, Entries: []Entry{late}}))
	if got := waitingEvents(t, s)["r"][late.Key]; got != 5 {
		t.Errorf("position %d in the checkpoint, want 5: another leader would not read it again", got)
	}
}
