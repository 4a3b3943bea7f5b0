package culling

import (
	"fmt"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// FailingInput is the input of [DecideFailing]. All times but Now are in the status, so that a
// restart of the operator changes nothing.
type FailingInput struct {
	Settings Settings
	// Since is status.failingSince; zero if the notebook does not fail.
	Since time.Time
	// Announced is status.failingCullTime; zero if there is none.
	Announced time.Time
	// Failing: the notebook fails at this moment. It can also start again, or be ready for a
	// moment in a crash loop: it then is not stopped.
	Failing bool
	Now     time.Time
}

// FailingDecision is when a notebook that fails is stopped.
type FailingDecision struct {
	// CullTime is the new status.failingCullTime. Write it to the status and emit the warning. It
	// is zero if there is none.
	CullTime time.Time
	// Cull: stop the notebook now.
	Cull bool
	// Next is when to decide again if nothing changes; zero is never.
	Next time.Duration
}

// DecideFailing decides when a notebook is stopped that fails. It is stopped only at a time that
// was announced for the whole warning. If the operator did not run at that time, or the clock
// jumped over it, it is announced again.
func DecideFailing(in FailingInput) FailingDecision {
	s := &in.Settings
	if s.Failing == 0 || in.Since.IsZero() {
		return FailingDecision{}
	}
	if left := in.Since.Add(s.Failing - s.FailingWarning).Sub(in.Now); left > 0 {
		return FailingDecision{Next: left}
	}
	d := FailingDecision{CullTime: in.Announced}
	valid := !in.Announced.Before(in.Since) &&
		in.Now.Before(in.Announced.Add(ahead)) && in.Announced.Before(in.Now.Add(s.FailingWarning+ahead))
	switch {
	case !in.Failing && !valid: // nothing is announced while it starts
		return FailingDecision{}
	case !valid:
		d.CullTime = wholeSecond(later(in.Now.Add(s.FailingWarning), in.Since.Add(s.Failing)))
	case in.Failing && !in.Now.Before(in.Announced):
		d.Cull = true
		return d
	}
	d.Next = max(time.Second, d.CullTime.Sub(in.Now))
	return d
}

// FailingWarning is the text that announces the stop of a notebook that fails.
func FailingWarning(since, cullTime time.Time, reason string) string {
	return fmt.Sprintf("the notebook has failed since %s (%s): it stops at %s unless it runs again; its claim stays", stamp(since), reason, stamp(cullTime))
}

// FailingNote is the text about a notebook that was stopped because it failed.
func FailingNote(last *v1alpha1.LastFailure) string {
	text := "the notebook failed for too long, so it was stopped; its claim stays; to start it again, correct the cause and set spec.suspend to false"
	if last != nil {
		text += ": " + last.Reason + ": " + last.Message
	}
	return text
}
