package match

import (
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// variables is the data that an expression can use.
type variables struct {
	event   *alarm.Event
	context *alarm.Context
	// change is set if the occurrence is a change. changed contains its differences.
	change  *alarm.Change
	changed []FieldChange
	// state is the object of a state, and now the present time.
	state map[string]any
	now   time.Time
	// message is for a webhook's body, which has no other variables.
	message *message.Message
	// cost is the total cost of the evaluations that used this data.
	cost int64
}

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case varEvent:
		return v.event, true
	case varObject:
		return &v.context.Object, true
	case varCluster:
		return &v.context.Cluster, true
	case varMessage:
		return v.message, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (*variables) Parent() cel.Activation { return nil }

// FieldChange is an element of the variable changed.
type FieldChange struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

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

// Parent implements cel.Activation.
func (changeActivation) Parent() cel.Activation { return nil }

// stateActivation resolves the variables of an expression about a state.
type stateActivation struct{ vars *variables }

// ResolveName implements cel.Activation.
func (a stateActivation) ResolveName(name string) (any, bool) {
	switch name {
	case varObject:
		return orNull(a.vars.state), true
	case varNow:
		return a.vars.now, true
	case varCluster:
		return &a.vars.context.Cluster, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (stateActivation) Parent() cel.Activation { return nil }

func orNull(object map[string]any) any {
	if object == nil {
		return types.NullValue
	}
	return object
}
