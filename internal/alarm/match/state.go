package match

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// State is a compiled StateMatch of an alarm. It is immutable and safe for concurrent use.
type State struct {
	Alarm *Alarm
	// ID identifies the state among those of the alarm. It depends on resource and expression,
	// so that the alarm can be edited otherwise while the state lasts.
	ID       string
	Resource alarm.Resource
	// For is how long the state must last, and End how long it must be over before it ends.
	For, End time.Duration
	// UsesNow is true if the state can begin or end without a change of the object.
	UsesNow bool

	names        names
	selector     labels.Selector
	selectorCost int64
	expression   *expression
	// reads are the fields that the expression reads. needs also contains those of messages.
	reads, needs fields.Shape
}

// UsesOthers reports whether the state depends on the labels of the namespace, or on the number of
// Nodes.
func (s *State) UsesOthers() bool { return s.Alarm.namespaces != nil || s.expression.needsNodes }

func (c *compilation) compileStates(matches []v1alpha1.StateMatch) ([]*State, error) {
	states := make([]*State, 0, len(matches))
	for i := range matches {
		s, err := c.compileState(fmt.Sprintf("spec.states[%d]", i), &matches[i])
		if err != nil {
			return nil, err
		}
		same := func(other *State) bool { return other.ID == s.ID }
		if j := slices.IndexFunc(states, same); j >= 0 {
			return nil, invalidField(fmt.Sprintf("spec.states[%d]", i), fmt.Sprintf("spec.states[%d] has the same resource and expression: use another alarm", j))
		}
		states = append(states, s)
	}
	return states, nil
}

func (c *compilation) compileState(field string, match *v1alpha1.StateMatch) (*State, error) {
	s := &State{
		Resource: ResourceOf(&match.Resource),
		For:      time.Duration(match.ForSeconds) * time.Second,
		End:      time.Duration(match.EndSeconds) * time.Second, names: namesOf(match.Names),
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", s.Resource.Stream(), match.Expression))
	s.ID = hex.EncodeToString(sum[:8])
	var err error
	if s.selector, err = compileSelector(field+".objectSelector", match.ObjectSelector); err != nil {
		return nil, err
	}
	s.selectorCost = int64(selectorSize(match.ObjectSelector))
	if s.expression, err = c.compileIn(c.stateEnv, field+".expression", match.Expression); err != nil {
		return nil, err
	}
	s.UsesNow, s.reads = s.expression.usesNow, fields.NewShape(s.expression.reads...)
	s.needs = s.reads
	return s, checkNeeds(field, s.Resource, s.needs)
}

// Truth is whether a state holds.
type Truth int

const (
	// Unknown: something that the expression needs is not known, or the budget is exhausted.
	Unknown Truth = iota
	// No: the state does not hold, or the alarm does not select the object.
	No
	// Yes: the state holds.
	Yes
)

// KnownIn reports whether all fields that the expression reads are kept.
func (s *State) KnownIn(kept *fields.Filter) bool { return kept.Covers(s.reads) }

// Holds evaluates the state for an object. The error is the failure of the expression, which is
// then not true. If ctx was cancelled, the result means nothing.
func (s *State) Holds(ctx context.Context, object map[string]any, known *alarm.Context, namespaces Namespaces, now time.Time, meter *Meter) (Truth, error) {
	meter.spend(1)
	if meter.Exhausted() {
		return Unknown, nil
	}
	if selected := s.selects(known, namespaces, meter); selected != Yes {
		return selected, nil
	}
	if s.expression.needsNodes && known.NodesUnread != "" {
		return Unknown, nil
	}
	vars := &variables{context: known, state: object, now: now}
	value, err := s.expression.eval(ctx, vars)
	meter.spend(vars.cost)
	if err == nil && value == types.True {
		return Yes, nil
	}
	return No, err
}

// HoldsSince returns a time since when the expression has been true at least, if it is true for
// an object now. It is zero if that is unknown.
func (s *State) HoldsSince(object map[string]any) time.Time {
	if s.UsesNow || s.expression.needsNodes {
		return time.Time{}
	}
	return fields.UnchangedSince(object)
}

// Selects reports whether names, selectors and the namespace of the alarm select an object.
func (s *State) Selects(known *alarm.Context, namespaces Namespaces) bool {
	return s.selects(known, namespaces, nil) == Yes
}

// selects reports whether the alarm selects an object.
func (s *State) selects(known *alarm.Context, namespaces Namespaces, meter *Meter) Truth {
	a, object, steps := s.Alarm, &known.Object.Metadata, 0
	if a.ID.Kind == alarm.KindAlarm && object.Namespace != a.ID.Namespace {
		return No
	}
	if !s.names.accepts(object.Name, &steps) {
		meter.spend(int64(steps / stepsPerUnit))
		return No
	}
	meter.spend(int64(steps/stepsPerUnit) + s.selectorCost)
	if s.selector != nil && !s.selector.Matches(labels.Set(object.Labels)) {
		return No
	}
	if a.namespaces == nil {
		return Yes
	}
	if object.Namespace == "" {
		return No
	}
	of, exists, unread := namespaces.Labels(object.Namespace)
	switch {
	case unread != "":
		return Unknown
	case !exists || !a.namespaces.Matches(labels.Set(of)):
		return No
	}
	return Yes
}

// maxNoteExpression is the length of an expression in a note, in characters.
const maxNoteExpression = 300

// Note returns the text of a state that has lasted, or has ended.
func (s *State) Note(ended bool) string {
	text := plaintext.CutRunes(plaintext.Line(s.expression.text), maxNoteExpression)
	switch {
	case ended:
		return "no longer: " + text
	case s.For > 0:
		return fmt.Sprintf("for %v: %s", s.For, text)
	}
	return text
}
