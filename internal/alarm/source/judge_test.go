package source

import "testing"

func TestFirstSightOfAnEvent(t *testing.T) {
	at := func(complete, reset bool) progress {
		return progress{position: 100, time: second(50), complete: complete, reset: reset}
	}
	seen := func(position uint64, created int64) observation {
		return observation{position: position, count: 7, created: second(created)}
	}
	for name, tc := range map[string]struct {
		from progress
		s    observation
		want int32
	}{
		"new is reported whole":                                  {at(true, false), seen(101, 60), 7},
		"at the position it was read before":                     {at(true, false), seen(100, 60), 0},
		"all counts known, so an old one would be known":         {at(true, false), seen(101, 40), 7},
		"counts lost, created since":                             {at(false, false), seen(101, 60), 7},
		"counts lost, created in the same second":                {at(false, false), seen(101, 50), 7},
		"counts lost, created before: one change":                {at(false, false), seen(101, 40), 1},
		"set back, created since":                                {at(true, true), seen(101, 60), 7},
		"set back, created before: expired in the other history": {at(true, true), seen(101, 40), 0},
		"set back and counts lost, created before":               {at(false, true), seen(101, 40), 0},
		"time not known":                                         {progress{position: 100}, seen(101, 40), 7},
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
