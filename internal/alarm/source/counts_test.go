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
	if c.byUUID.len() != 1 || len(c.other) != 3 {
		t.Fatalf("%d UUIDs and %d others, want 1 and 3", c.byUUID.len(), len(c.other))
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

func TestSweepRemovesEventsThatTheListDidNotContain(t *testing.T) {
	c := newCounts()
	for _, uid := range []string{someUUID, "a", "b"} {
		c.set(uid, known{count: 1})
	}
	c.beginList()
	c.set("a", known{count: 2})
	var gone []string
	if err := c.sweep(func(uid string) error { gone = append(gone, uid); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(gone)
	if diff := cmp.Diff([]string{someUUID, "b"}, gone); diff != "" {
		t.Error(diff)
	}
	if c.len() != 1 {
		t.Errorf("%d left, want 1", c.len())
	}
}

func FuzzUUIDIsPrintedAsItWasParsed(f *testing.F) {
	f.Add(someUUID)
	f.Add("00000000-0000-0000-0000-00000000000\xff")
	f.Fuzz(func(t *testing.T, uid string) {
		if id, ok := parseUUID(uid); ok && id.String() != uid {
			t.Errorf("%q comes back as %q", uid, id)
		}
	})
}

func TestFirstIncreaseOfAnUnknownEvent(t *testing.T) {
	at := func(complete, reset bool) progress {
		return progress{position: 100, time: second(50), complete: complete, reset: reset}
	}
	seen := func(position uint64, created int64) observation {
		return observation{position: position, count: 7, created: second(created), changed: second(created)}
	}
	changed := observation{position: 101, count: 7, created: second(40), changed: second(60)}
	replay := progress{position: 100, time: second(50), until: 200, untilTime: second(70)}
	for name, tc := range map[string]struct {
		from progress
		s    observation
		want int32
	}{
		"new is reported whole":                                  {at(true, false), seen(101, 60), 7},
		"at the position it was read before":                     {at(true, false), seen(100, 60), 0},
		"all counts known, so an old one would be known":         {at(true, false), seen(101, 40), 7},
		"counts lost, created since":                             {at(false, false), seen(101, 60), 7},
		"counts lost, created in the same second: one change":    {at(false, false), seen(101, 50), 1},
		"counts lost, created before: one change":                {at(false, false), seen(101, 40), 1},
		"set back, created since":                                {at(true, true), seen(101, 60), 7},
		"set back, created before: expired in the other history": {at(true, true), seen(101, 40), 0},
		"set back and counts lost, created before":               {at(false, true), seen(101, 40), 0},
		"set back, changed since: one change":                    {at(true, true), changed, 1},
		"set back and counts lost, changed since: one change":    {at(false, true), changed, 1},
		"counts lost, time not known: one change":                {progress{position: 100}, seen(101, 40), 1},
		"all counts known, time not needed":                      {progress{position: 100, complete: true}, seen(101, 40), 7},
		"replayed, created in the replayed time":                 {replay, seen(200, 60), 7},
		"replayed, created before":                               {replay, seen(200, 40), 1},
		"after the replay, created since its end":                {replay, seen(201, 80), 7},
		"after the replay, created in the replayed time":         {replay, seen(201, 60), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.from.firstIncrease(tc.s); got != tc.want {
				t.Errorf("firstIncrease = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestIncreaseOfAKnownEventIsNeverNegative(t *testing.T) {
	for count, want := range map[int32]int32{3: 0, 5: 0, 6: 1, 9: 4} {
		if got := (known{count: 5}).increase(observation{count: count}); got != want {
			t.Errorf("from 5 to %d: %d, want %d", count, got, want)
		}
	}
}
