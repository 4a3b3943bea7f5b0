package match

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/internal/spelling"
)

// NearMiss is the only condition of an alarm that an occurrence does not meet.
type NearMiss struct {
	// Field is the path of the condition, for example spec.match[0].reasons. For the
	// namespace of an Alarm, it is metadata.namespace.
	Field string
	// Value is what the occurrence has instead. For objectSelector, it is the label of the object,
	// as KEY=VALUE or "no label KEY". It is empty for expression.
	Value string
	// Instead is a pattern or value that would accept Value and that resembles the one in
	// the field. It is empty if there is none.
	Instead string
	// Met is the number of other conditions, which the occurrence meets.
	Met int
}

// orBetter returns n, or other if that says more about why the alarm does not match.
func (n *NearMiss) orBetter(other *NearMiss) *NearMiss {
	switch {
	case other == nil:
		return n
	case (n.Instead != "") != (other.Instead != ""):
		if n.Instead != "" {
			return n
		}
		return other
	case n.Met > other.Met:
		return n
	default:
		return other
	}
}

// NearMiss returns the condition without which the alarm would match an occurrence. It
// returns nil if the alarm matches, if more than one condition fails, or if a result is
// unknown. It calls object only for an occurrence whose result depends on the object.
func (a *Alarm) NearMiss(ctx context.Context, occ *alarm.Occurrence, namespaces Namespaces, object func() *alarm.Context) *NearMiss {
	if a.beginsAfter(occ) {
		return nil
	}
	outside, selector := a.outside(occ, namespaces)
	var best *NearMiss
	resolving := 0
	for i := range a.entries {
		if a.entries[i].resolves {
			resolving++
			continue
		}
		if a.entries[i].change != nil { // it does not match Events
			continue
		}
		s := nearMissSearch{entry: &a.entries[i], field: fmt.Sprintf("spec.match[%d].", i-resolving), met: selector}
		if outside != nil {
			s.fail(*outside)
		}
		if s.event(&occ.Event); len(s.failed) > 1 || !s.object(ctx, &occ.Event, object) {
			continue
		}
		miss := s.result()
		if miss == nil {
			return nil // it matches
		}
		best = miss.orBetter(best)
	}
	return best
}

// ChangeMisses returns the conditions of each entry of spec.changes about the resource that a
// change does not meet. Occurrences of unchanged objects are changes too. It does not evaluate an
// expression that depends on another condition.
func (a *Alarm) ChangeMisses(ctx context.Context, occ *alarm.Occurrence, namespaces Namespaces, known *alarm.Context) (misses []NearMiss) {
	if outside, _ := a.outside(occ, namespaces); outside != nil {
		misses = append(misses, *outside)
	}
	at := -1
	for i := range a.entries {
		e := &a.entries[i]
		if e.change == nil {
			continue
		}
		if at++; e.change.resource.Stream() != occ.Change.Resource.Stream() {
			continue
		}
		s := nearMissSearch{entry: e, field: fmt.Sprintf("spec.changes[%d].", at)}
		s.change(ctx, occ, known)
		misses = append(misses, s.failed...)
	}
	return misses
}

// change evaluates the conditions of an entry of spec.changes.
func (s *nearMissSearch) change(ctx context.Context, occ *alarm.Occurrence, known *alarm.Context) {
	e, change := s.entry, occ.Change
	s.names(e.names, occ.Event.Regarding.Name)
	vars := &variables{event: &occ.Event, change: change, context: known}
	if e.objectSelector != nil && (&entry{objectSelector: e.objectSelector}).evaluate(ctx, vars).Outcome == NotMatched {
		s.fail(NearMiss{Field: s.field + "objectSelector"})
	}
	if !slices.Contains(e.change.operations, change.Operation) {
		s.fail(NearMiss{Field: s.field + "operations", Value: string(change.Operation)})
		return
	}
	if change.Operation == alarm.Update {
		found, _ := fields.Differences(change.Old, change.Object, e.change.paths, maxDifferences)
		if vars.changed = fieldChanges(found); len(found) == 0 {
			s.fail(NearMiss{Field: s.field + "fields", Value: strings.ReplaceAll(fields.NewShape(e.change.paths...).String(), "\n", ", ")})
			return
		}
	}
	if e.expression != nil && (&entry{expression: e.expression}).evaluate(ctx, vars).Outcome == NotMatched {
		s.fail(NearMiss{Field: s.field + "expression"})
	}
}

// outside returns the condition about the namespace, if it fails. Otherwise, met is the
// number of such conditions.
func (a *Alarm) outside(occ *alarm.Occurrence, namespaces Namespaces) (failed *NearMiss, met int) {
	if a.ID.Kind == alarm.KindClusterAlarm && a.namespaces == nil {
		return nil, 0
	}
	field := "spec.namespaceSelector"
	if by, ok := a.namespaces.(namespaceSelector); ok && !by.names.accepts(occ.Event.Regarding.Namespace, new(int)) {
		field = "spec.namespaces"
	}
	if a.ID.Kind == alarm.KindAlarm {
		field = "metadata.namespace"
	}
	s := search{occ: occ, namespaces: namespaces}
	if !a.inScope(occ) || !s.selected(a.namespaces) {
		return &NearMiss{Field: field, Value: occ.Event.Regarding.Namespace}, 0
	}
	return nil, 1
}

// nearMissSearch evaluates the conditions of one entry.
type nearMissSearch struct {
	entry  *entry
	field  string
	failed []NearMiss
	met    int
}

func (s *nearMissSearch) fail(n NearMiss) { s.failed = append(s.failed, n) }

// condition evaluates a list of accepted values. An empty list is no condition.
func (s *nearMissSearch) condition(field string, accepted []string, value string) {
	switch {
	case len(accepted) == 0:
	case slices.Contains(accepted, value):
		s.met++
	default:
		miss := NearMiss{Field: s.field + field, Value: value}
		if slices.ContainsFunc(accepted, func(a string) bool { return spelling.IsSimilar(a, value) }) {
			miss.Instead = value
		}
		s.fail(miss)
	}
}

// pattern evaluates a list of globs.
func (s *nearMissSearch) names(n names, value string) {
	s.pattern("names", n.included, value)
	switch {
	case len(n.excluded) == 0:
	case glob.MatchAny(n.excluded, value):
		s.fail(NearMiss{Field: s.field + "names", Value: value})
	default:
		s.met++
	}
}

func (s *nearMissSearch) pattern(field string, accepted []glob.Pattern, value string) {
	switch {
	case len(accepted) == 0:
	case glob.MatchAny(accepted, value):
		s.met++
	default:
		miss := NearMiss{Field: s.field + field, Value: value}
		for _, p := range accepted {
			miss.Instead = cmp.Or(miss.Instead, widened(string(p), value))
		}
		s.fail(miss)
	}
}

// widened returns the pattern with further wildcards at its ends that matches the value, or
// "" if there is none.
func widened(pattern, value string) string {
	text := strings.Trim(pattern, "* ")
	if text == "" {
		return ""
	}
	for _, wider := range []string{text + "*", "*" + text, "*" + text + "*"} {
		if glob.Pattern(wider).Match(value) {
			return wider
		}
	}
	return ""
}

// event evaluates the conditions that need only the Event.
func (s *nearMissSearch) event(event *alarm.Event) {
	s.condition("kinds", s.entry.kinds, event.Regarding.Kind)
	s.condition("reasons", s.entry.reasons, event.Reason)
	switch {
	case len(s.entry.except) == 0:
	case slices.Contains(s.entry.except, event.Reason):
		s.fail(NearMiss{Field: s.field + "reasons", Value: event.Reason})
	default:
		s.met++
	}
	s.condition("types", s.entry.types, event.Type)
	s.names(s.entry.names, event.Regarding.Name)
	if s.entry.note != "" {
		s.pattern("note", []glob.Pattern{s.entry.note}, event.Note)
	}
}

// object evaluates the other conditions. It returns false if a result is unknown, or if
// one condition more fails than may.
func (s *nearMissSearch) object(ctx context.Context, event *alarm.Event, object func() *alarm.Context) bool {
	for _, part := range []struct {
		field string
		only  entry
		set   bool
	}{
		{"objectSelector", entry{objectSelector: s.entry.objectSelector, selectorCost: s.entry.selectorCost}, s.entry.objectSelector != nil},
		{"expression", entry{expression: s.entry.expression}, s.entry.expression != nil},
	} {
		if !part.set {
			continue
		}
		known := object()
		switch part.only.evaluate(ctx, &variables{event: event, context: known}).Outcome {
		case Matched:
			s.met++
		case NotMatched:
			miss := NearMiss{Field: s.field + part.field}
			if part.only.objectSelector != nil {
				miss.Value = otherLabel(part.only.objectSelector, known.Object.Metadata.Labels)
			}
			if s.fail(miss); len(s.failed) > 1 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// otherLabel returns the first label that a selector does not accept.
func otherLabel(selector labels.Selector, set map[string]string) string {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if r.Matches(labels.Set(set)) {
			continue
		}
		if value, exists := set[r.Key()]; exists {
			return r.Key() + "=" + value
		}
		text := "no label " + r.Key()
		if meant := spelling.Similar(r.Key(), slices.Sorted(maps.Keys(set))); meant != "" {
			text += ": did you mean " + meant
		}
		return text
	}
	return ""
}

// result returns the only condition that failed, or nil if none did.
func (s *nearMissSearch) result() *NearMiss {
	if len(s.failed) == 0 {
		return nil
	}
	miss := s.failed[0]
	miss.Met = s.met
	return &miss
}
