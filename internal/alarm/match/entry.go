package match

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// entry is one compiled EventMatch. An empty or nil field accepts anything.
type entry struct {
	kinds, reasons, types []string
	names                 []glob.Pattern
	note                  glob.Pattern
	objectSelector        labels.Selector
	expression            *expression
}

// accepts judges by all that the Event itself tells, but for the reason, by
// which the index has already found the entry. It adds to steps those of the globs.
func (e *entry) accepts(event *alarm.Event, steps *int) bool {
	return anyOrOneOf(e.kinds, event.Regarding.Kind) &&
		anyOrOneOf(e.types, event.Type) &&
		e.acceptsName(event.Regarding.Name, steps) &&
		e.note.MatchCounting(event.Note, steps)
}

func anyOrOneOf(accepted []string, value string) bool {
	return len(accepted) == 0 || slices.Contains(accepted, value)
}

func (e *entry) acceptsName(name string, steps *int) bool {
	if len(e.names) == 0 {
		return true
	}
	for _, g := range e.names {
		if g.MatchCounting(name, steps) {
			return true
		}
	}
	return false
}

func (e *entry) needsContext() bool {
	return e.objectSelector != nil || e.expression != nil && e.expression.needsContext
}

// judge decides on an Event that the entry accepts.
func (e *entry) evaluate(ctx context.Context, vars *variables) Result {
	if e.objectSelector != nil {
		if !vars.context.Resolved {
			return Result{Outcome: Unresolved}
		}
		if !e.objectSelector.Matches(labels.Set(vars.context.Object.Metadata.Labels)) {
			return Result{Outcome: NotMatched}
		}
	}
	if e.expression == nil {
		return Result{Outcome: Matched}
	}
	return e.expression.evaluateCondition(ctx, vars)
}
