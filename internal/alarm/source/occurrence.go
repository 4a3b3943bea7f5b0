package source

import (
	"cmp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// countOf returns how often e has occurred so far. client-go's recorders count in
// series (a new series begins at 2), the older ones in deprecatedCount; some
// count nowhere, which is once.
func countOf(e *eventsv1.Event) int32 {
	if e.Series != nil {
		return max(e.Series.Count, 1)
	}
	return max(e.DeprecatedCount, 1)
}

// lastSeen returns when e last occurred. Recorders of events.k8s.io may leave
// deprecatedLastTimestamp empty.
func lastSeen(e *eventsv1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	return firstSet(e.EventTime.Time, e.DeprecatedLastTimestamp.Time, e.CreationTimestamp.Time)
}

// firstSeen returns when e first occurred.
func firstSeen(e *eventsv1.Event) time.Time {
	return firstSet(e.DeprecatedFirstTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

// observedAt returns when the API server last changed e, by its own clock. It
// stamps the entry of the manager that makes a change, also if the same manager
// makes the same change again.
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
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// parsePosition returns the position that a resourceVersion stands for.
func parsePosition(version string) (uint64, error) {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return 0, err
	}
	return strconv.ParseUint(version, 10, 64)
}

func formatPosition(position uint64) string {
	return strconv.FormatUint(position, 10)
}

// newOccurrence returns what happened to e when it came to position.
func newOccurrence(e *eventsv1.Event, position uint64, increase int32) *alarm.Occurrence {
	return &alarm.Occurrence{
		Increase:   int64(increase),
		Position:   position,
		ObservedAt: observedAt(e),
		Event:      Event(e),
	}
}

// Whole returns an Event as one occurrence that stands for as many as it counts: how
// it came to be what it is now, the API server does not keep.
func FullOccurrence(e *eventsv1.Event) (alarm.Occurrence, error) {
	position, err := parsePosition(e.ResourceVersion)
	if err != nil {
		return alarm.Occurrence{}, err
	}
	return *newOccurrence(e, position, countOf(e)), nil
}

// Event returns what is read of an Event of the API server: its texts are bounded,
// and its times and counts found where its recorder puts them.
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

// firstName returns name, or the one that core/v1 recorders fill instead.
func firstName(name, deprecated string) string {
	return plaintext.Cut(cmp.Or(name, deprecated), maxName)
}

// The longest texts of an Event, in bytes. The API server holds the Events of
// events.k8s.io/v1 to as much or less, but one written through core/v1 may have
// any of them as long as a whole request, and many of them wait in memory.
const (
	maxNote = 1024
	maxName = 253 // of objects
	maxWord = 128 // of reasons and actions
)
