// Package lasting decides when a state of an object is reported: once, when it has lasted, and
// when it has ended. It has no clock and stores nothing.
package lasting

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// State is a state of an object that holds. A state that does not hold has none.
type State struct {
	// Since is when it began.
	Since time.Time
	// Fired is true if it was reported.
	Fired bool
}

// Step is what must be done after an evaluation.
type Step int

const (
	// Keep: nothing must be done.
	Keep Step = iota
	// Begin: the state began. It must be stored.
	Begin
	// Fire: the state has lasted. It must be stored and reported. It may have begun with this
	// evaluation.
	Fire
	// Forget: the state ended before it was reported. It must be removed.
	Forget
	// End: a state that was reported ended. It must be removed, and the end be reported.
	End
)

// Rule says when a state is reported.
type Rule struct {
	// For is how long it must last.
	For time.Duration
	// Muted: it is not reported now. It is reported later if it still holds.
	Muted bool
}

// Due returns when the state can be reported.
func (s State) Due(wait time.Duration) time.Time { return s.Since.Add(wait) }

// Next returns the state after an evaluation at a time, and what must be done. before is nil if
// the state did not hold. A time before the last one, as after a change of the clock, lets the
// state begin at that time.
func Next(before *State, holds match.Truth, now time.Time, rule Rule) (State, Step) {
	switch holds {
	case match.No:
		return State{}, ended(before)
	case match.Yes:
		return held(before, now, rule)
	default:
		if before == nil {
			return State{}, Keep
		}
		return *before, Keep
	}
}

func ended(before *State) Step {
	switch {
	case before == nil:
		return Keep
	case before.Fired:
		return End
	default:
		return Forget
	}
}

func held(before *State, now time.Time, rule Rule) (State, Step) {
	after, step := State{Since: now}, Begin
	if before != nil {
		after, step = *before, Keep
	}
	if after.Since.After(now) {
		after.Since, step = now, Begin
	}
	if after.Fired {
		return after, Keep
	}
	if !rule.Muted && !now.Before(after.Due(rule.For)) {
		after.Fired, step = true, Fire
	}
	return after, step
}
