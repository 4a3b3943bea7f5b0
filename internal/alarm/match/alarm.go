// Package match compiles alarms, finds the alarms that an occurrence matches, and renders
// their messages. It also has the pure parts of thresholds, groups and mutes.
//
// The package uses no Kubernetes client, no clock and no goroutine. Callers pass in all
// data about the cluster. Table tests therefore reach every decision, and a replay of the
// same Events gives the same messages.
package match

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// Definition is an alarm as it is in the API.
type Definition struct {
	ID kube.Key
	// UID is the UID of the object. It is part of the idempotency keys of its messages.
	UID string
	// CreatedAt is the object's creationTimestamp. Earlier occurrences do not match.
	CreatedAt time.Time
	// ResumedAt is the time at which the alarm was resumed after it was suspended; zero if it
	// never was. Earlier occurrences do not match.
	ResumedAt time.Time
	Spec      v1alpha1.AlarmSpec
	// Namespaces and NamespaceSelector are those of ClusterAlarmSpec. If both are unset, they select every
	// namespace, and objects without a namespace.
	Namespaces        []string
	NamespaceSelector *metav1.LabelSelector
	// Receivers are the keys of the receivers. This package does not interpret them.
	Receivers []string
	// OpenGroups is status.openGroups. It says which acknowledgements were in force before.
	OpenGroups []v1alpha1.AlarmOpenGroup
	// Route chooses further receivers. Nil: there are none.
	Route *Route
}

// Object is an Alarm or a ClusterAlarm.
type Object interface {
	metav1.Object
	AlarmSpec() *v1alpha1.AlarmSpec
	NamespaceGlobs() []string
	NamespaceSelector() *metav1.LabelSelector
	ReceiverChoice() *v1alpha1.ReceiversFrom
}

// NewDefinition returns the Definition of an object that sends to the receivers with these
// keys.
func NewDefinition(kind string, object Object, receivers []string) Definition {
	return Definition{
		ID:                kube.Key{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()},
		UID:               string(object.GetUID()),
		CreatedAt:         object.GetCreationTimestamp().Time,
		Spec:              *object.AlarmSpec(),
		Namespaces:        object.NamespaceGlobs(),
		NamespaceSelector: object.NamespaceSelector(),
		Receivers:         receivers,
	}
}

// from returns the time before which occurrences do not match.
func (d *Definition) from() time.Time {
	if d.ResumedAt.After(d.CreatedAt) {
		return d.ResumedAt
	}
	return d.CreatedAt
}

// Alarm is a compiled Definition. It is immutable and safe for concurrent use.
type Alarm struct {
	ID        kube.Key
	UID       string
	Receivers []string

	from      time.Time
	suspended bool
	// needs are the fields that the alarm needs of objects.
	needs      map[alarm.Resource]fields.Shape
	namespaces labels.Selector // nil: not restricted
	entries    []entry
	states     []*State
	// readObjects are the resources of spec.readObjects.
	readObjects []alarm.Resource
	threshold   *Threshold
	group       *Grouping
	route       *Route   // nil: spec.receiversFrom is not set
	all         []string // of AllReceivers, with a route
	mutes       []*calendar.Window
	// The alarm is also muted from muteFrom until muteUntil, which can be zero.
	muteFrom, muteUntil time.Time
	// acknowledged are the acknowledgements by the key of the group.
	acknowledged map[string]*Acknowledgement
	title        *template // nil: the default
	text         *template // nil: the default
}

// Threshold returns the alarm's threshold, or nil if it has none.
func (a *Alarm) Threshold() *Threshold { return a.threshold }

// ReadObjects returns the resources whose objects are read for the alarm, beside those of the kinds
// that are read for every alarm. Do not modify it.
func (a *Alarm) ReadObjects() []alarm.Resource { return a.readObjects }

// Window returns how old the occurrences can be that influence the alarm's decision about
// the present one.
func (a *Alarm) Window() time.Duration {
	var window time.Duration
	if a.threshold != nil {
		window = a.threshold.Within
	}
	if a.group != nil {
		window = max(window, alarm.GroupLife, a.group.Wait+a.group.Interval)
		if quiet := a.group.Quiet; quiet > 0 { // the end of a group waits for an interval at least
			window = max(window, quiet, a.group.Wait+2*a.group.Interval)
		}
	}
	return window
}

// Grouping returns how the alarm groups its occurrences, or nil if it does not.
func (a *Alarm) Grouping() *Grouping { return a.group }

// UsesNodes reports whether a condition on Events, or a text of the message, uses the number of Nodes.
func (a *Alarm) UsesNodes() bool {
	return slices.ContainsFunc(a.entries, func(e entry) bool { return e.expression != nil && e.expression.needsNodes }) ||
		a.title.needsNodes() || a.text.needsNodes()
}

// IsAboutOneNamespace reports whether each message is about one namespace: that of an Alarm, that
// of a group, or that of a single occurrence.
func (a *Alarm) IsAboutOneNamespace() bool {
	return a.ID.Kind == alarm.KindAlarm || a.group == nil || a.group.has("regarding.namespace")
}

// Muted reports whether the alarm is muted at a time.
func (a *Alarm) Muted(at time.Time) bool {
	if at.Before(a.muteUntil) && !at.Before(a.muteFrom) {
		return true
	}
	return slices.ContainsFunc(a.mutes, func(w *calendar.Window) bool { return w.Contains(at) })
}

// inScope reports whether the alarm's scope includes the occurrence. It does not check
// the labels of the namespace.
//
// An Event's own namespace and that of its regarding object can differ, because the API
// server does not compare them. A tenant can therefore write Events that regard objects
// of other namespaces. An Event counts as one of a namespace only if both agree.
func (a *Alarm) inScope(occ *alarm.Occurrence) bool {
	if a.beginsAfter(occ) {
		return false
	}
	if a.ID.Kind == alarm.KindClusterAlarm && a.namespaces == nil {
		return true
	}
	namespace, trusted := TrustedNamespace(&occ.Event)
	return trusted && (a.ID.Kind == alarm.KindClusterAlarm || namespace == a.ID.Namespace)
}

// beginsAfter reports whether the alarm begins after an occurrence. It does not if it begins in the
// future: the clock was set back since, or the operator's clock is slow.
func (a *Alarm) beginsAfter(occ *alarm.Occurrence) bool {
	return occ.ObservedAt.Before(a.from) && (occ.ReadAt.IsZero() || !a.from.After(occ.ReadAt))
}

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

// needMetadata adds the annotations and the owner to what the alarm needs of objects, for its messages
// and groups. Labels are always there.
func (a *Alarm) needMetadata() {
	metadata := fields.NewShape(fields.Join("metadata", "annotations"), fields.Join("metadata", "ownerReferences"))
	for i := range a.entries {
		if c := a.entries[i].change; c != nil {
			c.needs = fields.Union(c.needs, metadata)
		}
	}
	for _, s := range a.states {
		s.needs = fields.Union(s.needs, metadata)
	}
}

// States returns the states of the alarm. It is empty if the alarm is suspended.
func (a *Alarm) States() []*State {
	if a.suspended {
		return nil
	}
	return a.states
}

// Acknowledged returns the acknowledgement of a group, or nil if there is none.
func (a *Alarm) Acknowledged(group string) *Acknowledgement { return a.acknowledged[group] }

// Acknowledgements returns all acknowledgements by group. The caller must not change them.
func (a *Alarm) Acknowledgements() map[string]*Acknowledgement { return a.acknowledged }

// Route returns how the alarm chooses receivers by a label, or nil if it does not.
func (a *Alarm) Route() *Route { return a.route }

// WithRoute returns a copy of the alarm with another Route.
func (a *Alarm) WithRoute(route *Route) *Alarm {
	routed := *a
	routed.setRoute(route)
	routed.states = slices.Clone(a.states)
	for i, s := range a.states {
		state := *s
		state.Alarm, routed.states[i] = &routed, &state
	}
	return &routed
}

func (a *Alarm) setRoute(route *Route) {
	a.route, a.all = route, nil
	if route == nil {
		return
	}
	a.all = slices.Clone(a.Receivers)
	for _, key := range route.keys {
		if !slices.Contains(a.Receivers, key) {
			a.all = append(a.all, key)
		}
	}
}

// AllReceivers returns the keys of all receivers that the alarm can have. Do not modify it.
func (a *Alarm) AllReceivers() []string {
	if a.route == nil {
		return a.Receivers
	}
	return a.all
}
