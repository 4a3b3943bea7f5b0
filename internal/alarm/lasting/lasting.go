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
	// Ends is when a reported state ends that does not hold any more, unless it holds again before. It is zero
	// while it holds.
	Ends time.Time
}

// Step is what must be done after an evaluation.
type Step int

const (
	// Keep: nothing must be done.
	Keep Step = iota
	// Store: the state began, is about to end, or holds again before its end. It must be stored.
	Store
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
	// For is how long it must last, and End how long it must be over before it ends.
	For, End time.Duration
	// Muted: it is not reported now. It is reported later if it still holds.
	Muted bool
}

// Due returns when the state can be reported.
func (s State) Due(wait time.Duration) time.Time { return s.Since.Add(wait) }

// Next returns the state after an evaluation at a time, and what must be done. before is nil if
// the state did not hold. A time before the last one, as after a change of the clock, lets the
// state begin, or be over, at that time.
func Next(before *State, holds match.Truth, now time.Time, rule Rule) (State, Step) {
	switch holds {
	case match.No:
		return over(before, now, rule)
	case match.Yes:
		return held(before, now, rule)
	default:
		if before == nil {
			return State{}, Keep
		}
		return *before, Keep
	}
}

func over(before *State, now time.Time, rule Rule) (State, Step) {
	switch {
	case before == nil:
		return State{}, Keep
	case !before.Fired:
		return State{}, Forget
	}
	after, step, latest := *before, Keep, now.Add(rule.End)
	if after.Ends.IsZero() || after.Ends.After(latest) {
		after.Ends, step = latest, Store
	}
	if !now.Before(after.Ends) {
		return State{}, End
	}
	return after, step
}

func held(before *State, now time.Time, rule Rule) (State, Step) {
	after, step := State{Since: now}, Store
	if before != nil {
		after, step = *before, Keep
	}
	if after.Since.After(now) {
		after.Since, step = now, Store
	}
	if after.Fired && !after.Ends.IsZero() {
		after.Ends, step = time.Time{}, Store
	}
	if after.Fired {
		return after, step
	}
	if !rule.Muted && !now.Before(after.Due(rule.For)) {
		after.Fired, step = true, Fire
	}
	return after, step
}
