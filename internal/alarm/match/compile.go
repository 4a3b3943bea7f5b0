package match

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// Compile validates and compiles an alarm. Its error is a *CompileError, which the author
// of the alarm must correct.
func (c *Compiler) Compile(def Definition) (*Alarm, error) {
	a := &Alarm{
		ID:        def.ID,
		UID:       def.UID,
		Receivers: slices.Clone(def.Receivers),

		from:      def.from(),
		suspended: def.Spec.Suspend,
	}
	a.setRoute(def.Route)
	for i := range def.Spec.ReadObjects {
		a.readObjects = append(a.readObjects, ResourceOf(&def.Spec.ReadObjects[i]))
	}
	var err error
	unit := &compilation{env: c.env, changeEnv: c.changeEnv, stateEnv: c.stateEnv}
	if a.namespaces, err = compileNamespaces(def.Namespaces, def.NamespaceSelector); err != nil {
		return nil, err
	}
	if a.entries, err = unit.compileAllEntries(&def.Spec); err != nil {
		return nil, err
	}
	if a.states, err = unit.compileStates(def.Spec.States); err != nil {
		return nil, err
	}
	for _, s := range a.states {
		s.Alarm = a
	}
	if a.mutes, err = compileMutes(def.Spec.Mute); err != nil {
		return nil, err
	}
	a.muteFrom, a.muteUntil = def.Spec.MuteTimes()
	a.acknowledged = compileAcknowledgements(def.Spec.Acknowledgements, def.OpenGroups)
	if a.group, err = compileGrouping(def.ID.Name, &def.Spec); err != nil {
		return nil, err
	}
	if a.group == nil && len(a.states) > 0 {
		a.group = groupByObject()
	}
	a.threshold = compileThreshold(def.Spec.Threshold)
	if a.title, err = unit.compileTemplate("spec.message.title", def.Spec.Message.Title); err != nil {
		return nil, err
	}
	if a.text, err = unit.compileTemplate("spec.message.text", def.Spec.Message.Text); err != nil {
		return nil, err
	}
	if a.group != nil && a.group.needsObject || a.title.needsObject() || a.text.needsObject() {
		a.needMetadata()
	}
	a.needs = a.joinNeeds()
	return a, nil
}

// compileAllEntries compiles the entries of spec.resolve.match, spec.match and spec.changes.
// The first come first, because an Event that resolves a group does nothing else.
func (c *compilation) compileAllEntries(spec *v1alpha1.AlarmSpec) (resolving []entry, err error) {
	if spec.Resolve != nil {
		if resolving, err = c.compileEntries("spec.resolve.match", spec.Resolve.Match); err != nil {
			return nil, err
		}
		for i := range resolving {
			resolving[i].resolves = true
		}
	}
	entries, err := c.compileEntries("spec.match", spec.Match)
	if err != nil {
		return nil, err
	}
	changes, err := c.compileChanges(spec.Changes)
	return slices.Concat(resolving, entries, changes), err
}

func (c *compilation) compileEntries(field string, match []v1alpha1.EventMatch) ([]entry, error) {
	entries := make([]entry, 0, len(match))
	for i := range match {
		e, err := c.compileEntry(fmt.Sprintf("%s[%d]", field, i), &match[i])
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (c *compilation) compileEntry(field string, match *v1alpha1.EventMatch) (entry, error) {
	e := entry{
		kinds: slices.Clone(match.Kinds),
		note:  glob.Pattern(match.Note),
		names: namesOf(match.Names),
	}
	e.reasons, e.except = Split(match.Reasons)
	for _, eventType := range match.Types {
		e.types = append(e.types, string(eventType))
	}
	var err error
	if e.objectSelector, err = compileSelector(field+".objectSelector", match.ObjectSelector); err != nil {
		return entry{}, err
	}
	e.selectorCost = int64(selectorSize(match.ObjectSelector))
	if match.Expression != "" {
		e.expression, err = c.compileCondition(field+".expression", match.Expression)
	}
	return e, err
}

func compileThreshold(spec *v1alpha1.AlarmThreshold) *Threshold {
	if spec == nil {
		return nil
	}
	return &Threshold{Count: int64(spec.Count), Within: time.Duration(spec.WithinSeconds) * time.Second}
}

func compileMutes(specs []v1alpha1.MuteWindow) ([]*calendar.Window, error) {
	windows := make([]*calendar.Window, 0, len(specs))
	for i := range specs {
		field := fmt.Sprintf("spec.mute[%d]", i)
		for j := range specs[:i] {
			if equality.Semantic.DeepEqual(specs[i], specs[j]) {
				return nil, &CompileError{Reason: v1alpha1.ReasonInvalidMute, Field: field, Message: fmt.Sprintf("duplicate of spec.mute[%d]: remove one of them", j)}
			}
		}
		w, err := calendar.New(&specs[i])
		if invalid, ok := errors.AsType[*calendar.Error](err); ok {
			return nil, &CompileError{Reason: v1alpha1.ReasonInvalidMute, Field: field + "." + invalid.Field, Message: invalid.Message}
		}
		windows = append(windows, w)
	}
	return windows, nil
}
