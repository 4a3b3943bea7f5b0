package match

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
	"github.com/bongsu-io/bongsu/internal/glob"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Compiler compiles Definitions into Alarms. It is safe for concurrent use.
type Compiler struct {
	env, changeEnv, stateEnv *cel.Env
}

// NewCompiler returns a Compiler. It fails only if the CEL environment is invalid.
func NewCompiler() (*Compiler, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment: %w", err)
	}
	changeEnv, err := newChangeEnv()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment of changes: %w", err)
	}
	stateEnv, err := newStateEnv()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment of states: %w", err)
	}
	return &Compiler{env: env, changeEnv: changeEnv, stateEnv: stateEnv}, nil
}

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
	if a.namespaces, err = compileSelector("spec.namespaceSelector", def.NamespaceSelector); err != nil {
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
		a.needAnnotations()
	}
	a.needs = a.joinNeeds()
	return a, nil
}

// compilation is the compilation of one alarm.
type compilation struct {
	env, changeEnv, stateEnv *cel.Env
	// instructions is the number of instructions of all regular expressions so far.
	instructions int
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
		kinds:   slices.Clone(match.Kinds),
		reasons: slices.Clone(match.Reasons),
		except:  slices.Clone(match.ExceptReasons),
		note:    glob.Pattern(match.Note),
		names:   globs(match.Names),
	}
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

func globs(texts []string) []glob.Pattern {
	var patterns []glob.Pattern
	for _, text := range texts {
		patterns = append(patterns, glob.Pattern(text))
	}
	return patterns
}

// compileSelector returns nil for a selector that is not set. An empty selector, in
// contrast, selects everything.
func compileSelector(field string, selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	invalid := func(message string) error {
		return &CompileError{Reason: v1alpha1.ReasonInvalidMatch, Field: field, Message: plaintext.CutRunes(plaintext.Line(message), maxCompileMessage)}
	}
	if size := selectorSize(selector); size > maxSelectorSize {
		return nil, invalid(fmt.Sprintf("it has %d labels and values, the limit is %d: use fewer, or another alarm", size, maxSelectorSize))
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, invalid(err.Error())
	}
	return compiled, nil
}

// maxSelectorSize is the number of labels and values in a selector. Each can be compared
// for each Event.
const maxSelectorSize = 256

func selectorSize(selector *metav1.LabelSelector) int {
	if selector == nil {
		return 0
	}
	size := len(selector.MatchLabels)
	for _, requirement := range selector.MatchExpressions {
		size += 1 + len(requirement.Values)
	}
	return size
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

// maxCompileMessage is the maximum length of an error message, in characters. The message
// appears in a condition, together with the name of the field.
const maxCompileMessage = 500

// CompileError describes what is wrong with an alarm, and where.
type CompileError struct {
	// Reason is the reason of the Ready condition: v1alpha1.ReasonInvalidExpression,
	// ReasonInvalidMatch, ReasonInvalidGroup or ReasonInvalidMute.
	Reason string
	// Field is the path of the field, for example spec.match[0].expression.
	Field string
	// Line and Column are the position in the text of the field. They start at 1 and
	// count characters. They are 0 if the whole field is invalid.
	Line, Column int
	// Text is the whole text of the field, if Line and Column are set.
	Text    string
	Message string
}

// Error returns one sentence with the field, the position and the message.
func (e *CompileError) Error() string {
	switch {
	case e.Line > 1:
		return fmt.Sprintf("%s is invalid at line %d, column %d: %s", e.Field, e.Line, e.Column, e.Message)
	case e.Column > 0:
		return fmt.Sprintf("%s is invalid at column %d: %s", e.Field, e.Column, e.Message)
	default:
		return fmt.Sprintf("%s is invalid: %s", e.Field, e.Message)
	}
}

// expressionError returns a CompileError for an offset, in bytes, in the text of the
// field.
func expressionError(field, text string, offset int, format string, args ...any) *CompileError {
	before := text[:offset]
	lastLine := before[strings.LastIndexByte(before, '\n')+1:]
	return &CompileError{
		Reason:  v1alpha1.ReasonInvalidExpression,
		Field:   field,
		Text:    text,
		Line:    1 + strings.Count(before, "\n"),
		Column:  1 + utf8.RuneCountInString(lastLine),
		Message: plaintext.CutRunes(plaintext.Line(fmt.Sprintf(format, args...)), maxCompileMessage),
	}
}
