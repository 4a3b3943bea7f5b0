package match

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Names of the variables of an expression about a change, besides object and cluster.
const (
	varOldObject = "oldObject"
	varChanged   = "changed"
	varManager   = "manager"
)

// FieldChange is an element of the variable changed.
type FieldChange struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// newChangeEnv returns the environment of expressions about changes. object and oldObject are
// as in the API, because their types are not known.
func newChangeEnv() (*cel.Env, error) {
	return newEnvOf(
		structTypes(reflect.TypeFor[FieldChange](), reflect.TypeFor[alarm.Cluster]()),
		cel.Variable(varObject, cel.DynType),
		cel.Variable(varOldObject, cel.DynType),
		cel.Variable(varChanged, cel.ListType(cel.ObjectType("FieldChange"))),
		cel.Variable(varManager, cel.StringType),
		cel.Variable(varCluster, cel.ObjectType("Cluster")),
	)
}

// changeMatch is a compiled ChangeMatch, as a part of an entry.
type changeMatch struct {
	resource   alarm.Resource
	operations []alarm.Operation
	// paths are the fields whose differences count. needs also includes those that the
	// expression reads.
	paths []fields.Path
	needs fields.Shape
	// needed are the paths of needs that must be known before and after an update.
	needed []string
}

// maxDifferences is the number of differences of a change that its text and the variable
// changed contain.
const maxDifferences = 20

// Needs returns the fields that the alarm needs of the objects of each resource. It is empty
// if the alarm is suspended. Do not modify it.
func (a *Alarm) Needs() map[alarm.Resource]fields.Shape { return a.needs }

// joinNeeds returns what the entries and states need.
func (a *Alarm) joinNeeds() map[alarm.Resource]fields.Shape {
	needs := map[alarm.Resource]fields.Shape{}
	for i := range a.entries {
		if c := a.entries[i].change; c != nil && !a.suspended {
			needs[c.resource] = fields.Union(needs[c.resource], c.needs)
		}
	}
	for _, s := range a.States() {
		needs[s.Resource] = fields.Union(needs[s.Resource], s.needs)
	}
	return needs
}

// needAnnotations adds the annotations to what the alarm needs of objects, for its messages and
// groups. Labels are always there.
func (a *Alarm) needAnnotations() {
	annotations := fields.NewShape(fields.Join("metadata", "annotations"))
	for i := range a.entries {
		if c := a.entries[i].change; c != nil {
			c.needs = fields.Union(c.needs, annotations)
		}
	}
	for _, s := range a.states {
		s.needs = fields.Union(s.needs, annotations)
	}
}

// ResourceOf returns the resource that an alarm names.
func ResourceOf(named *v1alpha1.ChangeResource) alarm.Resource {
	return alarm.Resource{Group: named.APIGroup, Resource: named.Resource}
}

func (c *compilation) compileChanges(matches []v1alpha1.ChangeMatch) ([]entry, error) {
	entries := make([]entry, 0, len(matches))
	for i := range matches {
		e, err := c.compileChange(fmt.Sprintf("spec.changes[%d]", i), &matches[i])
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (c *compilation) compileChange(field string, match *v1alpha1.ChangeMatch) (entry, error) {
	resource := ResourceOf(&match.Resource)
	e := entry{names: globs(match.Names), change: &changeMatch{resource: resource}}
	for _, operation := range match.Operations {
		e.change.operations = append(e.change.operations, alarm.Operation(operation))
	}
	if len(match.Operations) == 0 { // manifests that did not pass through an API server
		e.change.operations = []alarm.Operation{alarm.Update}
	}
	var err error
	if e.objectSelector, err = compileSelector(field+".objectSelector", match.ObjectSelector); err != nil {
		return entry{}, err
	}
	e.selectorCost = int64(selectorSize(match.ObjectSelector))
	if match.Expression != "" {
		if e.expression, err = c.compileIn(c.changeEnv, field+".expression", match.Expression); err != nil {
			return entry{}, err
		}
	}
	return e, e.change.compileFields(field, match, e.expression)
}

// secrets are never read, except for their metadata.
var secrets = alarm.Resource{Resource: "secrets"}

// countingMessages are the resources whose status changes with each message. An alarm on it would
// match because of its own messages, for ever.
var countingMessages = []string{"alarms", "clusteralarms", "alarmreceivers", "clusteralarmreceivers"}

// checkNeeds refuses fields that an entry or a state must not read.
func checkNeeds(field string, of alarm.Resource, needs fields.Shape) error {
	switch {
	case of.Stream() == secrets.Stream() && !needs.OnlyMetadata():
		return invalidField(field, "the values of Secrets are never read: use only fields below metadata, such as metadata.labels")
	case of.Group == v1alpha1.Group && slices.Contains(countingMessages, of.Resource) && !needs.OnlyConditions():
		return invalidField(field, "the status of "+of.Resource+" changes with each message: use only fields below spec, metadata, and status.conditions")
	}
	return nil
}

func (m *changeMatch) compileFields(field string, match *v1alpha1.ChangeMatch, e *expression) error {
	m.paths = []fields.Path{fields.DefaultPath()}
	if match.Fields != nil {
		m.paths = m.paths[:0]
	}
	for i, text := range match.Fields {
		path, err := fields.Parse(text)
		if err != nil {
			return invalidField(fmt.Sprintf("%s.fields[%d]", field, i), err.Error())
		}
		m.paths = append(m.paths, path)
	}
	all := slices.Clone(m.paths)
	if !slices.Contains(m.operations, alarm.Update) {
		all = nil
	}
	if e != nil {
		all = append(all, e.reads...)
	}
	m.needs = fields.NewShape(all...)
	if err := checkNeeds(field, m.resource, m.needs); err != nil {
		return err
	}
	for _, path := range all {
		m.needed = append(m.needed, path.String())
	}
	return nil
}

func invalidField(field, message string) error {
	return &CompileError{Reason: v1alpha1.ReasonInvalidMatch, Field: field, Message: plaintext.CutRunes(plaintext.Line(message), maxCompileMessage)}
}

// compileIn compiles an expression in another environment than that of Events.
func (c *compilation) compileIn(env *cel.Env, field, text string) (*expression, error) {
	inEvents := c.env
	c.env = env
	defer func() { c.env = inEvents }()
	return c.compileCondition(field, text)
}

// readsOf returns the fields of object and oldObject that a checked expression reads. The
// path ends where the expression uses the value other than by selecting a field.
func readsOf(checked *cel.Ast) []fields.Path {
	var reads []fields.Path
	for _, use := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.IdentKind)) {
		switch name := use.AsIdent(); {
		case name == varObject && isConditionOf(use):
			reads = append(reads, readsOfConditions()...)
		case name == varObject, name == varOldObject:
			reads = append(reads, fields.Join(selectedFrom(use)...))
		}
	}
	return reads
}

// selectedFrom returns the names of the fields that are selected one after the other.
func selectedFrom(use ast.NavigableExpr) []string {
	var names []string
	for {
		parent, ok := use.Parent()
		if !ok {
			return names
		}
		switch {
		case parent.Kind() == ast.SelectKind:
			names = append(names, parent.AsSelect().FieldName())
		case isCall(parent, operators.Index), isCall(parent, operators.OptIndex), isCall(parent, operators.OptSelect):
			args := parent.AsCall().Args()
			key, constant := literalText(args[1])
			if !constant || args[0].ID() != use.ID() {
				return names
			}
			names = append(names, key)
		default:
			return names
		}
		use = parent
	}
}

// acceptsChange checks what needs only the change.
func (e *entry) acceptsChange(change *alarm.Change, name string, steps *int) bool {
	c := e.change
	if !slices.Contains(c.operations, change.Operation) || !e.acceptsName(name, steps) {
		return false
	}
	if change.Operation != alarm.Update || change.Known == nil {
		return true
	}
	return !slices.ContainsFunc(c.needed, func(path string) bool { return !change.Known(path) })
}

// evaluateChange decides on a change that the entry accepts, and describes it.
func (e *entry) evaluateChange(ctx context.Context, vars *variables) Result {
	change := vars.change
	var found []fields.Difference
	var more int
	if change.Operation == alarm.Update {
		found, more = fields.Differences(change.Old, change.Object, e.change.paths, maxDifferences)
		vars.cost += differenceCost*int64(1+len(e.change.paths)) + change.Size/bytesPerDifferenceUnit
		if len(found) == 0 {
			return Result{Outcome: NotMatched}
		}
	}
	vars.changed = fieldChanges(found)
	result := e.evaluate(ctx, vars)
	result.Note = describe(change, found, more)
	return result
}

const (
	// differenceCost is the cost of looking for the values at a path.
	differenceCost = 20
	// bytesPerDifferenceUnit is the size of objects that are compared in one unit. Small values
	// take longest.
	bytesPerDifferenceUnit = 4
)

func fieldChanges(found []fields.Difference) []FieldChange {
	changes := make([]FieldChange, 0, len(found))
	for _, d := range found {
		changes = append(changes, FieldChange{Field: d.Field, From: d.From, To: d.To})
	}
	return changes
}

// describe returns what happened, as the note of the occurrence.
func describe(change *alarm.Change, found []fields.Difference, more int) string {
	text := map[alarm.Operation]string{alarm.Create: "created", alarm.Delete: "deleted"}[change.Operation]
	if change.Operation == alarm.Update {
		text = fields.Describe(found, more)
	}
	if change.Manager != "" && change.Operation != alarm.Delete {
		text += " (by " + plaintext.CutRunes(plaintext.Line(change.Manager), maxManager) + ")"
	}
	return text
}

// maxManager is the length of a field manager in a note. The API server allows 128 characters.
const maxManager = 64

// changeActivation resolves the variables of an expression about a change.
type changeActivation struct{ vars *variables }

// ResolveName implements cel.Activation.
func (a changeActivation) ResolveName(name string) (any, bool) {
	switch name {
	case varObject:
		return orNull(a.vars.change.Object), true
	case varOldObject:
		return orNull(a.vars.change.Old), true
	case varChanged:
		return a.vars.changed, true
	case varManager:
		return a.vars.change.Manager, true
	case varCluster:
		return &a.vars.context.Cluster, true
	}
	return nil, false
}

func orNull(object map[string]any) any {
	if object == nil {
		return types.NullValue
	}
	return object
}

// Parent implements cel.Activation.
func (changeActivation) Parent() cel.Activation { return nil }
