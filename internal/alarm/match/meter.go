package match

import (
	"fmt"
	"sync/atomic"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Meter limits the cost of evaluating the Events of one namespace, so that they cannot
// delay those of others. The unit is CEL's cost unit, about a tenth of a microsecond. A
// nil Meter is unlimited. A Meter is safe for concurrent use.
type Meter struct {
	spent atomic.Int64
	limit int64
}

// NewMeter returns a Meter with this limit.
func NewMeter(limit int64) *Meter { return &Meter{limit: limit} }

// Spent returns the cost so far. It can exceed the limit a little.
func (m *Meter) Spent() int64 { return m.spent.Load() }

// Exhausted reports whether the limit is reached.
func (m *Meter) Exhausted() bool { return m != nil && m.spent.Load() >= m.limit }

// Spend counts the cost of work outside of this package.
func (m *Meter) Spend(cost int64) { m.spend(cost) }

func (m *Meter) spend(cost int64) {
	if m != nil {
		m.spent.Add(cost)
	}
}

// OverBudgetError reports that some Events were not evaluated for an alarm, because such
// alarms are too expensive together.
type OverBudgetError struct {
	// Kind of the alarms: alarm.KindAlarm or alarm.KindClusterAlarm.
	Kind string
	// Namespace of the Events.
	Namespace string
	// States: it is about states that hold, and there is no space for more of them. Late: states are
	// evaluated late.
	States, Late bool
	// Changes: it is about changes and states of objects whose last known values are not kept.
	Changes bool
}

// Error returns one sentence that says what to do.
func (e *OverBudgetError) Error() string {
	if e.States {
		return fmt.Sprintf("states of some objects of namespace %s are not reported, because too many states hold there: "+
			"use fewer states, or raise --outbox-max-bytes", e.Namespace)
	}
	if e.Changes {
		where := "some objects"
		if e.Namespace != "" {
			where += " of namespace " + e.Namespace
		}
		return "changes and states of " + where + " are unknown, because their fields have no space, or exceed 4 MiB: name fewer fields, or raise --outbox-max-bytes"
	}
	alarms := "the Alarms of this namespace"
	if e.Kind == alarm.KindClusterAlarm {
		alarms = "the ClusterAlarms"
	}
	if e.Late {
		return fmt.Sprintf("states of objects of namespace %s are evaluated late, because %s are too expensive together: "+
			"simplify their expressions and globs", e.Namespace, alarms)
	}
	return fmt.Sprintf("some Events of namespace %s were not evaluated, because %s are too expensive together: "+
		"simplify their expressions and globs, or name kinds and reasons", e.Namespace, alarms)
}

// stepsPerUnit is the number of glob steps that take as long as one CEL cost unit.
const stepsPerUnit = 32

// Namespaces returns the labels of a namespace, or false if it does not exist. unread says
// why neither is known.
type Namespaces interface {
	Labels(namespace string) (labels map[string]string, exists bool, unread alarm.Unread)
}
