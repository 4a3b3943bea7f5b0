package outbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// commitOf commits entries of "r" that use the space of a tenant.
func commitOf(t *testing.T, s *Store, tenant string, from, n int) {
	t.Helper()
	c := Change{Events: &EventStep{Position: uint64(from + n - 1)}, Entries: entries("r", from, n)}
	for i := range c.Entries {
		c.Entries[i].Tenant = tenant
	}
	must(t, s.Commit(t.Context(), c))
}

func TestAfterTheLastTenantComesTheFirst(t *testing.T) {
	s := open(t, t.TempDir())
	if _, found, err := s.NextTenant(t.Context(), "r", ""); found || err != nil {
		t.Errorf("found one in an empty outbox, %v", err)
	}
	for i, tenant := range []string{"c", "a", "", "b", "a"} {
		commitOf(t, s, tenant, i+1, 1)
	}
	var got []string
	for tenant := "a"; len(got) < 5; {
		next, found, err := s.NextTenant(t.Context(), "r", tenant)
		must(t, err)
		if !found {
			t.Fatal("none found")
		}
		tenant, got = next, append(got, next)
	}
	if diff := cmp.Diff([]string{"b", "c", "", "a", "b"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPendingReturnsTheEntriesOfATenant(t *testing.T) {
	s := open(t, t.TempDir())
	for i, tenant := range []string{"a", "", "a", "b", "a"} {
		commitOf(t, s, tenant, i+1, 1)
	}
	for tenant, want := range map[string][]uint64{"a": {3, 5}, "": {2}, "b": {4}} {
		got, err := s.Pending(t.Context(), Query{Receiver: "r", Lane: MainLane, Tenant: &tenant, After: 1, Limit: 9})
		must(t, err)
		var positions []uint64
		for i := range got {
			positions = append(positions, got[i].Position)
		}
		if diff := cmp.Diff(want, positions); diff != "" {
			t.Errorf("%q: %s", tenant, diff)
		}
	}
}

// Another leader without the disk must not send again what overtook others.
func TestWhatWasOvertakenIsListedByKey(t *testing.T) {
	s := open(t, t.TempDir())
	commitOf(t, s, "many", 1, 3)
	commitOf(t, s, "one", 4, 1)
	commitOf(t, s, "many", 5, 1)
	a, err := s.Prepare(t.Context(), "r", MainLane, []int64{4}, "key", nil)
	must(t, err)
	if got := s.Backlog("r"); got.Lowest != 1 {
		t.Errorf("before it is sent: %+v", got)
	}
	_, err = s.Finish(t.Context(), a, Outcome{})
	must(t, err)
	if diff := cmp.Diff(Backlog{Entries: 4, Lowest: 5}, s.Backlog("r")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(progress.Keys{"1": 1, "2": 2, "3": 3}, waitingEvents(t, s)["r"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3, 5}, pending(t, s, "r")); diff != "" {
		t.Error(diff)
	}
}

func TestAMessageOfAGroupThatOvertookOthersIsNotSentAgain(t *testing.T) {
	g := newGrouped(t)
	commitOf(t, g.Store, "many", 1, 2)
	g.position = 2
	g.occur(0, func(e *Entry) { e.Tenant = "one" }, "a") // at position 3
	g.at(10)
	_, err := g.Release(t.Context())
	must(t, err)
	tenant, _, err := g.NextTenant(t.Context(), "r", "many")
	must(t, err)
	message, err := g.Pending(t.Context(), Query{Receiver: "r", Lane: MainLane, Tenant: &tenant, Limit: 9})
	must(t, err)
	if tenant != "one" || len(message) != 1 {
		t.Fatalf("%q has %v", tenant, message)
	}
	a, err := g.Prepare(t.Context(), "r", MainLane, []int64{message[0].ID}, "key", nil)
	must(t, err)
	_, err = g.Finish(t.Context(), a, Outcome{})
	must(t, err)
	if diff := cmp.Diff(progress.Keys{"1": 1, "2": 2}, waitingEvents(t, g.Store)["r"]); diff != "" {
		t.Error(diff)
	}
}
