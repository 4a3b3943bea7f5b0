package source

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someUUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

func TestCountsRememberUUIDsAndOthers(t *testing.T) {
	c := newCounts()
	for i, uid := range []string{someUUID, "node-1", "0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5b-d9cb-469f-a165-70867728950g"} {
		c.set(uid, known{position: uint64(i), count: 1})
	}
	if len(c.byUUID) != 1 || len(c.other) != 3 {
		t.Fatalf("%d UUIDs and %d others, want 1 and 3", len(c.byUUID), len(c.other))
	}
	for uid, k := range c.all() {
		if got, ok := c.get(uid); !ok || got != k {
			t.Errorf("get(%s) = %v, %v, want %v", uid, got, ok, k)
		}
		c.remove(uid)
	}
	if c.len() != 0 {
		t.Errorf("%d left after all were removed", c.len())
	}
}

func TestSweepRemovesWhatTheListDidNotHold(t *testing.T) {
	c := newCounts()
	for _, uid := range []string{someUUID, "a", "b"} {
		c.set(uid, known{count: 1})
	}
	c.beginList()
	c.set("a", known{count: 2})
	gone := c.sweep()
	slices.Sort(gone)
	if diff := cmp.Diff([]string{someUUID, "b"}, gone); diff != "" {
		t.Error(diff)
	}
	if c.len() != 1 {
		t.Errorf("%d left, want 1", c.len())
	}
}

func FuzzUUIDIsGivenBackAsItCame(f *testing.F) {
	f.Add(someUUID)
	f.Add("00000000-0000-0000-0000-00000000000\xff")
	f.Fuzz(func(t *testing.T, uid string) {
		if id, ok := parseUUID(uid); ok && id.String() != uid {
			t.Errorf("%q comes back as %q", uid, id)
		}
	})
}
