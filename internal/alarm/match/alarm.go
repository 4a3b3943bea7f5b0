// Package match compiles alarms, finds the alarms that an occurrence matches, and renders
// their messages. It also has the pure parts of thresholds, groups and mutes.
//
// The package uses no Kubernetes client, no clock and no goroutine. Callers pass in all
// data about the cluster. Table tests therefore reach every decision, and a replay of the
// same Events gives the same messages.
package match

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// Definition is an alarm as it is in the API.
type Definition struct {
	ID alarm.ID
	// UID is the UID of the object. It is part of the idempotency keys of its messages.
	UID string
	// CreatedAt is the object's creationTimestamp. Earlier occurrences do not match.
	CreatedAt time.Time
	Spec      v1alpha1.AlarmSpec
	// NamespaceSelector is ClusterAlarmSpec.NamespaceSelector. Nil selects every
	// namespace, and objects without a namespace.
	NamespaceSelector *metav1.LabelSelector
	// Receivers are the keys of the receivers. This package does not interpret them.
	Receivers []string
}

// Object is an Alarm or a ClusterAlarm.
type Object interface {
	metav1.Object
	AlarmSpec() *v1alpha1.AlarmSpec
	NamespaceSelector() *metav1.LabelSelector
}

// NewDefinition returns the Definition of an object that sends to the receivers with these
// keys.
func NewDefinition(kind string, object Object, receivers []string) Definition {
	return Definition{
		ID:                alarm.ID{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()},
		UID:               string(object.GetUID()),
		CreatedAt:         object.GetCreationTimestamp().Time,
		Spec:              *object.AlarmSpec(),
		NamespaceSelector: object.NamespaceSelector(),
		Receivers:         receivers,
	}
}

// Alarm is a compiled Definition. It is immutable and safe for concurrent use.
type Alarm struct {
	ID        alarm.ID
	UID       string
	Receivers []string

	createdAt  time.Time
	suspended  bool
	namespaces labels.Selector // nil: not restricted
	entries    []entry
	threshold  *Threshold
	group      *Grouping
	mutes      []*calendar.Window
	title      *template // nil: the default
	text       *template // nil: the default
}

// Threshold returns the alarm's threshold, or nil if it has none.
func (a *Alarm) Threshold() *Threshold { return a.threshold }

// Window returns how old the occurrences can be that influence the alarm's decision about
// the present one.
func (a *Alarm) Window() time.Duration {
	var window time.Duration
	if a.threshold != nil {
		window = a.threshold.Within
	}
	if a.group != nil {
		window = max(window, a.group.Wait+a.group.Interval)
	}
	return window
}

// Grouping returns how the alarm groups its occurrences, or nil if it does not.
func (a *Alarm) Grouping() *Grouping { return a.group }

// Muted reports whether the alarm is muted at a time.
func (a *Alarm) Muted(at time.Time) bool {
	return slices.ContainsFunc(a.mutes, func(w *calendar.Window) bool { return w.Contains(at) })
}

// inScope reports whether the alarm's scope includes the occurrence. It does not check
// the labels of the namespace.
//
// An Event's own namespace and that of its regarding object can differ, because the API
// server does not compare them. A tenant can therefore write Events that regard objects
// of other namespaces. An Event counts as one of a namespace only if both agree.
func (a *Alarm) inScope(occ *alarm.Occurrence) bool {
	if occ.ObservedAt.Before(a.createdAt) {
		return false
	}
	if a.ID.Kind == alarm.KindClusterAlarm && a.namespaces == nil {
		return true
	}
	namespace, trusted := trustedNamespace(&occ.Event)
	return trusted && (a.ID.Kind == alarm.KindClusterAlarm || namespace == a.ID.Namespace)
}

// trustedNamespace returns the namespace of the Event and of its regarding object. It
// returns false if they differ, or if the object has none.
func trustedNamespace(event *alarm.Event) (string, bool) {
	namespace := event.Regarding.Namespace
	return namespace, namespace != "" && namespace == event.Namespace
}

// entry is a compiled EventMatch. An empty or nil field accepts everything.
type entry struct {
	kinds, reasons, types []string
	names                 []glob.Pattern
	note                  glob.Pattern
	objectSelector        labels.Selector
	expression            *expression
}

// accepts checks the fields that need only the Event. It does not check the reason,
// because the index has found the entry by it. It adds the steps that globs took to
// steps.
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

// evaluate decides on an Event that the entry accepts.
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
