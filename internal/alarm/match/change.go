package match

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"

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
	e := entry{names: namesOf(match.Names), change: &changeMatch{resource: resource}}
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

// compileIn compiles an expression in another environment than that of Events.
func (c *compilation) compileIn(env *cel.Env, field, text string) (*expression, error) {
	inEvents := c.env
	c.env = env
	defer func() { c.env = inEvents }()
	return c.compileCondition(field, text)
}

// acceptsChange checks what needs only the change.
func (e *entry) acceptsChange(change *alarm.Change, name string, steps *int) bool {
	c := e.change
	if !slices.Contains(c.operations, change.Operation) || !e.names.accepts(name, steps) {
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
