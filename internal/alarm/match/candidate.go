package match

import (
	"context"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Outcome is what became of an alarm and an occurrence.
type Outcome int

const (
	// NotMatched: the alarm is not about this occurrence.
	NotMatched Outcome = iota
	// Unresolved: it can not be judged, because the object is gone.
	Unresolved
	// Failed: it can not be judged, because an expression failed; see Result.Err.
	Failed
	// Matched: the alarm is to be sent.
	Matched
)

// Result is the judgement of one alarm on one occurrence.
type Result struct {
	Outcome Outcome
	// Err is the first failure of an expression while it ran; it names the field.
	// It may stand beside Matched, if another entry matched. If the context was
	// cancelled it wraps its cause: then nothing was decided.
	Err error
}

// Candidate is an alarm that an occurrence matches as far as can be told by the
// Event alone.
type Candidate struct {
	Alarm *Alarm

	occ      *alarm.Occurrence
	postings []posting // the entries that may match, in the order of the spec
	meter    *Meter    // nil: no bound
}

// NeedsContext tells whether Match looks at more than the Event; without, Match
// may be given an empty Context.
func (c Candidate) NeedsContext() bool {
	for _, p := range c.postings {
		if c.Alarm.entries[p.entry].needsContext() {
			return true
		}
	}
	return false
}

// Match decides whether the alarm matches. One entry that matches is enough,
// whatever became of the others; else a failure tells more than an object that
// is gone, and that more than no match. What is left out for want of a budget has
// no result at all.
func (c Candidate) Match(ctx context.Context, known *alarm.Context) Result {
	var result Result
	if c.meter.Exhausted() {
		return result
	}
	vars := &variables{event: &c.occ.Event, context: known}
	defer func() { c.meter.spend(vars.cost) }()
	for _, p := range c.postings {
		r := c.Alarm.entries[p.entry].evaluate(ctx, vars)
		result.Outcome = max(result.Outcome, r.Outcome)
		if result.Err == nil {
			result.Err = r.Err
		}
		if r.Outcome == Matched {
			break
		}
	}
	return result
}

// Render is [Alarm.Render] for the candidate's occurrence.
func (c Candidate) Render(ctx context.Context, known *alarm.Context) (message.Message, error) {
	vars := &variables{event: &c.occ.Event, context: known}
	defer func() { c.meter.spend(vars.cost) }()
	return c.Alarm.render(ctx, c.occ, vars)
}
