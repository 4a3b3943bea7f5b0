package outbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
)

func lastingState(uid string, due time.Time) Lasting {
	return Lasting{
		LastingKey: LastingKey{Stream: "pods", UID: uid, Alarm: "alarm", State: "s"}, Namespace: "shop",
		Since: time.Unix(1_800_000_000, 0).UTC(), Fired: due.IsZero(), Due: due, Position: 7, Data: []byte("{}"),
	}
}

var withoutIDs = cmpopts.IgnoreFields(Lasting{}, "ID")

func TestStatesAreStoredInTheTransactionOfThePosition(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	due := time.Unix(1_800_000_300, 0).UTC()
	pending, reported := lastingState("a", due), lastingState("b", time.Time{})
	reported.Group = "g"
	must(t, s.Commit(t.Context(), Change{Objects: &ObjectStep{Stream: Stream{Name: "pods", Position: 7}}, Lasting: LastingChanges{Put: []Lasting{pending, reported}}}))
	must(t, s.Close())
	s = open(t, dir)
	for uid, want := range map[string]Lasting{"a": pending, "b": reported} {
		got, err := s.States.Of(t.Context(), "pods", uid)
		must(t, err)
		if diff := cmp.Diff([]Lasting{want}, got, withoutIDs); diff != "" {
			t.Error(diff)
		}
	}
	next, err := s.States.Next(t.Context(), due.Add(-time.Second))
	must(t, err)
	if !next.Equal(due) {
		t.Errorf("next at %v, want %v", next, due)
	}
	ready, err := s.States.Page(t.Context(), time.Time{}, due, 0, 10)
	must(t, err)
	if diff := cmp.Diff([]Lasting{pending}, ready, withoutIDs); diff != "" {
		t.Error(diff)
	}
	if n, err := s.States.InGroup(t.Context(), "g"); n != 1 || err != nil {
		t.Errorf("%d states in the group, %v", n, err)
	}
	must(t, s.Commit(t.Context(), Change{Stream: "pods", Lasting: LastingChanges{Delete: []LastingKey{pending.LastingKey, reported.LastingKey}}}))
	if bytes, rows := s.memory.space.Sum(ledger.Objects), s.memory.space.Sum(ledger.States); bytes != 0 || rows != 0 {
		t.Errorf("%d bytes and %d rows remain", bytes, rows)
	}
	must(t, s.Close())
}

// The checkpoint divides its space among namespaces, so that one with many states leaves space for
// those of others.
func TestOpenStatesAreOfAllNamespaces(t *testing.T) {
	s := open(t, t.TempDir())
	quiet := lastingState("quiet", time.Time{})
	quiet.Namespace = "quiet"
	states := []Lasting{quiet}
	for i := range 20 {
		states = append(states, lastingState(fmt.Sprintf("u%02d", i), time.Time{}))
	}
	must(t, s.Commit(t.Context(), Change{Stream: "pods", Lasting: LastingChanges{Put: states}}))
	found, err := s.States.Open(t.Context(), 3)
	must(t, err)
	var uids []string
	for i := range found {
		uids = append(uids, found[i].UID)
	}
	if diff := cmp.Diff([]string{"u19", "quiet", "u18"}, uids); diff != "" {
		t.Error(diff)
	}
	must(t, s.Close())
}

// Much later, a message must still resolve the group.
func TestAGroupStaysOpenWhileAStateOfItLasts(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	s := open(t, t.TempDir(), WithClock(clock), WithComposer(describe))
	at := clock.Now()
	entry := func(key string, at time.Time, kind group.Kind) Entry {
		return Entry{
			Receiver: "r", Alarm: "Alarm/shop/a", Key: key, Position: 7, Count: 1, Payload: []byte(key), CreatedAt: at, Tenant: "Alarm/shop/",
			Member: &Membership{Group: "g", Rule: group.Rule{Lasts: true}, Event: group.Event{Kind: kind, At: at}},
		}
	}
	row := lastingState("a", time.Time{})
	row.Group = "g"
	must(t, s.Commit(t.Context(), Change{Stream: "pods", Entries: []Entry{entry("began", at, group.Problem)}, Lasting: LastingChanges{Put: []Lasting{row}}}))
	send := func() {
		t.Helper()
		clock.Step(2 * time.Second)
		_, err := s.Release(t.Context())
		must(t, err)
		_, err = s.Finish(t.Context(), prepare(t, s, "r", 1), Outcome{})
		must(t, err)
	}
	send()
	clock.Step(5 * time.Hour)
	s.forgetEnded(t.Context())
	if g, err := s.Groups.Get(t.Context(), "g"); !g.Unresolved || err != nil {
		t.Fatalf("the group is %+v, %v", g, err)
	}
	must(t, s.Commit(t.Context(), Change{Stream: "pods", Entries: []Entry{entry("ended", clock.Now(), group.OnlyResolution)}, Lasting: LastingChanges{Delete: []LastingKey{row.LastingKey}}}))
	send()
	clock.Step(5 * time.Hour)
	s.forgetEnded(t.Context())
	if g, err := s.Groups.Get(t.Context(), "g"); len(g.Receivers) > 0 || err != nil {
		t.Errorf("the group stays: %+v, %v", g, err)
	}
}
