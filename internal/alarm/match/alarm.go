package match

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/calendar"
)

// Definition is an alarm as the API has it.
type Definition struct {
	ID alarm.ID
	// UID of the object; part of the idempotency key of its messages.
	UID string
	// CreatedAt is the object's creationTimestamp: what was observed before it
	// does not match.
	CreatedAt time.Time
	Spec      v1alpha1.AlarmSpec
	// NamespaceSelector is ClusterAlarmSpec.NamespaceSelector; nil means every
	// namespace, and objects that have none.
	NamespaceSelector *metav1.LabelSelector
	// Receivers are the keys of the receivers, opaque here.
	Receivers []string
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

// Threshold returns what it takes for an occurrence to be sent; nil is nothing.
func (a *Alarm) Threshold() *Threshold { return a.threshold }

// Window is how far back the alarm looks to judge an occurrence.
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

// Grouping returns what is put into one message; nil is nothing.
func (a *Alarm) Grouping() *Grouping { return a.group }

// Muted tells whether what happens at a time is not to be sent.
func (a *Alarm) Muted(at time.Time) bool {
	return slices.ContainsFunc(a.mutes, func(w *calendar.Window) bool { return w.Contains(at) })
}

// sees tells whether the alarm's scope includes the occurrence, as far as that
// does not depend on the labels of a namespace.
//
// An Event's own namespace and that of its regarding object need not agree (the
// API server does not force them to), and whoever may edit one namespace may
// write Events that regard another: only where both agree is an Event of that
// namespace.
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

// trustedNamespace is the namespace that the Event and its regarding object both
// are in; false if they are not in one and the same.
func trustedNamespace(event *alarm.Event) (string, bool) {
	namespace := event.Regarding.Namespace
	return namespace, namespace != "" && namespace == event.Namespace
}
