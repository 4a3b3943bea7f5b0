package match

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// entry is a compiled EventMatch or ChangeMatch. An empty or nil field accepts everything.
type entry struct {
	kinds, reasons, except, types []string
	names                         names
	note                          glob.Pattern
	objectSelector                labels.Selector
	selectorCost                  int64
	expression                    *expression
	// resolves: it is an entry of spec.resolve.match.
	resolves bool
	// change is set if it is an entry of spec.changes.
	change *changeMatch
}

// accepts checks the fields that need only the occurrence. It does not check the reason or
// the resource, because the index has found the entry by it. It adds the steps that globs
// took to steps.
func (e *entry) accepts(occ *alarm.Occurrence, steps *int) bool {
	event := &occ.Event
	if e.change != nil {
		return e.acceptsChange(occ.Change, event.Regarding.Name, steps)
	}
	return anyOrOneOf(e.kinds, event.Regarding.Kind) &&
		anyOrOneOf(e.types, event.Type) &&
		!slices.Contains(e.except, event.Reason) &&
		e.names.accepts(event.Regarding.Name, steps) &&
		e.note.MatchCounting(event.Note, steps)
}

func anyOrOneOf(accepted []string, value string) bool {
	return len(accepted) == 0 || slices.Contains(accepted, value)
}

// unread says why the data that the entry needs is unknown. It is empty if all is known.
func (e *entry) unread(known *alarm.Context) alarm.Unread {
	if known.ObjectUnread != "" && (e.objectSelector != nil || e.expression != nil && e.expression.needsObject) {
		return known.ObjectUnread
	}
	if e.expression != nil && e.expression.needsNodes {
		return known.NodesUnread
	}
	return ""
}

// decide decides on an occurrence that the entry accepts.
func (e *entry) decide(ctx context.Context, vars *variables) Result {
	if e.change != nil {
		return e.evaluateChange(ctx, vars)
	}
	return e.evaluate(ctx, vars)
}

// evaluate checks the labels of the object and the expression.
func (e *entry) evaluate(ctx context.Context, vars *variables) Result {
	if unread := e.unread(vars.context); unread != "" {
		return Result{Outcome: Undecided, Unread: unread}
	}
	if e.objectSelector != nil {
		if !vars.context.Resolved {
			return Result{Outcome: Unresolved}
		}
		vars.cost += e.selectorCost
		if !e.objectSelector.Matches(labels.Set(vars.context.Object.Metadata.Labels)) {
			return Result{Outcome: NotMatched}
		}
	}
	if e.expression == nil {
		return Result{Outcome: Matched}
	}
	return e.expression.evaluateCondition(ctx, vars)
}
