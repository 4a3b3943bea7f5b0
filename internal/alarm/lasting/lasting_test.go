package lasting

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// observation is an evaluation at a time.
type observation struct {
	at    time.Time
	holds match.Truth
	muted bool
}

// model returns the evaluations at which a state is reported and ends, from the whole history. A
// state is reported at the first evaluation that is not muted after it has lasted. It ends at the first evaluation
// at which it does not hold, and has not held for long enough.
func model(history []observation, wait, end time.Duration) (fired, ended []int) {
	for i := 0; i < len(history); i++ {
		if history[i].holds != match.Yes {
			continue
		}
		began, report, over := history[i].at, false, time.Time{}
		for ; i < len(history); i++ {
			switch at := history[i].at; {
			case history[i].holds == match.Yes:
				over = time.Time{}
			case history[i].holds == match.No && (over.IsZero() || at.Before(over)):
				over = at
			}
			if history[i].holds == match.No && (!report || history[i].at.Sub(over) >= end) {
				break
			}
			o := history[i]
			if o.holds == match.Yes && !report {
				if o.at.Before(began) {
					began = o.at
				}
				if !o.muted && o.at.Sub(began) >= wait {
					report = true
					fired = append(fired, i)
				}
			}
		}
		if report && i < len(history) {
			ended = append(ended, i)
		}
	}
	return fired, ended
}

func TestAStateIsReportedOnceWhenItHasLasted(t *testing.T) {
	for seed := range uint64(2_000) {
		random := rand.New(rand.NewPCG(seed, 1))
		wait, end := time.Duration(random.IntN(5))*time.Minute, time.Duration(random.IntN(3))*time.Minute
		at := time.Unix(1_800_000_000, 0)
		var history []observation
		for range 60 {
			at = at.Add(time.Duration(random.IntN(90)) * time.Second)
			if random.IntN(40) == 0 { // the clock is set back
				at = at.Add(-10 * time.Minute)
			}
			holds := match.Yes
			switch random.IntN(8) {
			case 0:
				holds = match.No
			case 1:
				holds = match.Unknown
			}
			history = append(history, observation{at, holds, random.IntN(5) == 0})
		}
		var before *State
		var fired, ended []int
		for i, o := range history {
			after, step := Next(before, o.holds, o.at, Rule{For: wait, End: end, Muted: o.muted})
			if step == Fire {
				fired = append(fired, i)
			}
			if step == End {
				ended = append(ended, i)
			}
			switch step {
			case Store, Fire:
				before = &after
			case End, Forget:
				before = nil
			case Keep: // what is stored stays, so a restart changes nothing
			}
		}
		wantFired, wantEnded := model(history, wait, end)
		if !equal(fired, wantFired) || !equal(ended, wantEnded) {
			t.Fatalf("seed %d: reported at %v, ended at %v, want %v and %v", seed, fired, ended, wantFired, wantEnded)
		}
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
