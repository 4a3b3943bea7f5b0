package source

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/testing/eventstream"
)

const someUUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

func TestSweepRemovesEventsThatTheListDidNotContain(t *testing.T) {
	c := &counts{}
	for _, uid := range []string{someUUID, "a", "b"} {
		c.set(uid, known{count: 1})
	}
	c.events.BeginList()
	c.set("a", known{count: 2})
	var gone []string
	if err := c.sweep(func(uid string) error { gone = append(gone, uid); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(gone)
	if diff := cmp.Diff([]string{someUUID, "b"}, gone); diff != "" {
		t.Error(diff)
	}
	if c.events.Len() != 1 {
		t.Errorf("%d left, want 1", c.events.Len())
	}
}

// Two million Events need 128 MB. The number is that of the heap after a collection.
func TestALiveEventNeedsAFewBytes(t *testing.T) {
	before, c := heap(), &counts{}
	for n := range 120_000 {
		c.set(string(eventstream.UID(n)), known{count: 1})
		if n > 20_000 && n%4_000 == 0 {
			if each := (float64(heap()) - float64(before)) / float64(n+1); each > 75 {
				t.Errorf("%d Events need %.1f bytes each, want 75 at most", n+1, each)
			}
		}
	}
	runtime.KeepAlive(c)
}

// Otherwise, the list after a long time without a leader would need memory for every Event
// that was deleted meanwhile.
func TestASweepReportsEachEventAfterItsRemoval(t *testing.T) {
	c := &counts{}
	for n := range 1000 {
		c.set(string(eventstream.UID(n)), known{count: 1})
	}
	c.set("other", known{count: 1})
	c.events.BeginList()
	left, stop := c.events.Len(), errors.New("stop")
	err := c.sweep(func(string) error {
		if left--; c.events.Len() != left {
			t.Fatalf("%d Events are remembered, want %d", c.events.Len(), left)
		}
		if left == 500 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || c.events.Len() != 500 {
		t.Fatalf("error %v, %d Events left, want 500 after the error", err, c.events.Len())
	}
	if err := c.sweep(func(string) error { return nil }); err != nil || c.events.Len() != 0 {
		t.Errorf("error %v, %d Events left, want none", err, c.events.Len())
	}
}

func TestACountAndAPositionOfAnySizeAreRemembered(t *testing.T) {
	c := &counts{}
	for uid, want := range map[string]known{"none": {}, "largest": {position: math.MaxUint64, count: math.MaxInt32}, someUUID: {position: 1 << 40, count: 7}} {
		c.set(uid, want)
		if got, ok := c.get(uid); !ok || got != want {
			t.Errorf("%s: got %+v, %t, want %+v", uid, got, ok, want)
		}
		c.forgetPositions()
		if got, _ := c.get(uid); got != (known{count: want.count}) {
			t.Errorf("%s: got %+v after all positions were forgotten", uid, got)
		}
	}
	if got, ok := c.get("unknown"); ok {
		t.Errorf("an unknown Event has %+v", got)
	}
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
