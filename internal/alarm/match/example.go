package match

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// Example returns an invented occurrence, and its object, that the alarm's first entry
// matches. You can send a test message with it before anything has happened. It does not
// check whether the entry's expression is true.
func (a *Alarm) Example(at time.Time) (alarm.Occurrence, alarm.Context) {
	var e entry
	if i := slices.IndexFunc(a.entries, func(e entry) bool { return !e.resolves }); i >= 0 {
		e = a.entries[i]
	}
	ref := alarm.Reference{APIVersion: "v1", Kind: exampleOf(e.kinds, "Pod"), Name: exampleOf(e.names.included, "example"), UID: "example"}
	namespace := cmp.Or(a.ID.Namespace, "default")
	if ref.Kind != "Node" || a.ID.Kind == alarm.KindAlarm {
		ref.Namespace = namespace
	}
	event := alarm.Event{
		Namespace: namespace, Name: "example", UID: "example",
		Type: exampleOf(e.types, "Warning"), Reason: exampleOf(e.reasons, "Example"),
		Note: exampleOf([]glob.Pattern{e.note}, "an example, invented to test this alarm"), Count: 1, FirstSeen: at, LastSeen: at,
		Regarding: ref, ReportingController: "example",
	}
	if e.change != nil {
		event.Type, event.Reason, event.Regarding.Kind = "Normal", "Updated", e.change.resource.Resource
		ref = event.Regarding
	}
	if len(a.entries) == 0 && len(a.states) > 0 {
		s := a.states[0]
		e.objectSelector, ref.Kind, ref.Name = s.selector, s.Resource.Resource, exampleOf(s.names.included, "example")
		event.Type, event.Reason, event.Note, event.Regarding = "Warning", "StateBegan", s.Note(false), ref
	}
	known := alarm.Context{Resolved: true, Object: alarm.Object{
		APIVersion: ref.APIVersion, Kind: ref.Kind,
		Metadata: alarm.ObjectMeta{
			Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
			Labels: labelsMatching(e.objectSelector), CreationTimestamp: at,
		},
	}}
	if ref.Kind == "Node" {
		known.Object.Node = alarm.Node{
			InstanceType: "example", Zone: "example", Capacity: map[string]string{"cpu": "4", "memory": "16Gi", "pods": "110"},
		}
	}
	return alarm.Occurrence{Event: event, Increase: 1, Position: 1, ObservedAt: at}, known
}

// exampleOf returns a text that matches the first of the patterns, or the fallback if
// there is none.
func exampleOf[P ~string](patterns []P, fallback string) string {
	if len(patterns) == 0 || patterns[0] == "" {
		return fallback
	}
	if _, isGlob := any(patterns[0]).(glob.Pattern); isGlob {
		return strings.NewReplacer("*", "example", "?", "x").Replace(string(patterns[0]))
	}
	return string(patterns[0])
}

// labelsMatching returns labels that the selector selects, as far as it says which labels
// must exist.
func labelsMatching(selector labels.Selector) map[string]string {
	if selector == nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	matching := map[string]string{}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			matching[r.Key()] = r.ValuesUnsorted()[0]
		case selection.Exists:
			matching[r.Key()] = "example"
		default: // the label must not exist
		}
	}
	return matching
}
