package source

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// countOf returns the number of occurrences of e. Recorders of client-go count in series,
// where a new series begins at 2. Older recorders use deprecatedCount. Without either, it
// is one.
func countOf(e *eventsv1.Event) int32 {
	if e.Series != nil {
		return max(e.Series.Count, 1)
	}
	return max(e.DeprecatedCount, 1)
}

// lastSeen returns the time of the last occurrence of e. Recorders of events.k8s.io can
// leave deprecatedLastTimestamp empty.
func lastSeen(e *eventsv1.Event) time.Time {
	if e.Series != nil && isTime(e.Series.LastObservedTime.Time) {
		return e.Series.LastObservedTime.Time
	}
	return firstSet(e.EventTime.Time, e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time)
}

// firstSeen returns the time of the first occurrence of e.
func firstSeen(e *eventsv1.Event) time.Time {
	return firstSet(e.DeprecatedFirstTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

// observedAt returns the time of the last change of e, by the API server's clock. The API
// server updates the time in managedFields even if the same manager repeats the same
// change.
func observedAt(e *eventsv1.Event) time.Time {
	newest := e.CreationTimestamp.Time
	for i := range e.ManagedFields {
		if at := e.ManagedFields[i].Time; at != nil && at.After(newest) {
			newest = at.Time
		}
	}
	return newest
}

func firstSet(times ...time.Time) time.Time {
	for _, t := range times {
		if isTime(t) {
			return t
		}
	}
	return time.Time{}
}

// isTime reports whether a time is set, and has a year that JSON can contain in each time zone.
// Users can write others, for example the last hour of 9999 in a western time zone.
func isTime(t time.Time) bool {
	year := t.UTC().Year()
	return !t.IsZero() && 0 < year && year < 9999
}

// newOccurrence returns the occurrence of e at a position.
func newOccurrence(e *eventsv1.Event, position uint64, increase int32) *alarm.Occurrence {
	return &alarm.Occurrence{
		Increase:   int64(increase),
		Position:   position,
		ObservedAt: observedAt(e),
		Event:      Event(e),
	}
}

// FullOccurrence returns an Event as one occurrence with its whole count. The API server
// does not keep how the count grew.
func FullOccurrence(e *eventsv1.Event) (alarm.Occurrence, error) {
	position, err := apiwatch.ParsePosition(e.ResourceVersion)
	if err != nil {
		return alarm.Occurrence{}, err
	}
	return *newOccurrence(e, position, countOf(e)), nil
}

// Event converts an Event of the API server. Long texts are cut. Times and counts come
// from the fields that the recorder sets.
func Event(e *eventsv1.Event) alarm.Event {
	return alarm.Event{
		Namespace:           e.Namespace,
		Name:                e.Name,
		UID:                 string(e.UID),
		Type:                plaintext.Cut(e.Type, maxWord),
		Reason:              plaintext.Cut(e.Reason, maxWord),
		Action:              plaintext.Cut(e.Action, maxWord),
		Note:                plaintext.Cut(e.Note, maxNote),
		Count:               int64(countOf(e)),
		FirstSeen:           firstSeen(e),
		LastSeen:            lastSeen(e),
		Regarding:           newReference(&e.Regarding),
		ReportingController: firstName(e.ReportingController, e.DeprecatedSource.Component),
		ReportingInstance:   firstName(e.ReportingInstance, e.DeprecatedSource.Host),
	}
}

func newReference(r *corev1.ObjectReference) alarm.Reference {
	return alarm.Reference{
		APIVersion: plaintext.Cut(r.APIVersion, maxName),
		Kind:       plaintext.Cut(r.Kind, maxWord),
		Namespace:  plaintext.Cut(r.Namespace, maxName),
		Name:       plaintext.Cut(r.Name, maxName),
		UID:        plaintext.Cut(string(r.UID), maxWord),
		FieldPath:  plaintext.Cut(r.FieldPath, maxName),
	}
}

// firstName returns name, or the field that recorders of core/v1 set instead.
func firstName(name, deprecated string) string {
	return plaintext.Cut(cmp.Or(name, deprecated), maxName)
}

// Limits of the texts of an Event, in bytes. The API server has similar limits for
// events.k8s.io/v1. An Event of core/v1 can have texts as long as a request, and many
// Events wait in memory.
const (
	maxNote = 1024
	maxName = 253 // names of objects
	maxWord = 128 // reasons and actions
)
