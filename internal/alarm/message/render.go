package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// timeLayout is the layout of times in default messages.
const timeLayout = "2006-01-02 15:04:05 MST"

// New returns the message of one occurrence. It cleans and cuts title and text. An empty
// title becomes the default. If the Event is not in the namespace of the object, the title names both.
func New(id kube.Key, occ *alarm.Occurrence, known *alarm.Context, title, text string) Message {
	event := messageEvent(occ, &known.Object)
	if title = plaintext.Line(title); title == "" {
		title = defaultTitle(&event)
	} else {
		origin := originOf(event.EventNamespace)
		title = plaintext.CutRunes(title, MaxTitleLength-len(origin)) + origin
	}
	return Message{
		Version:   Version,
		Cluster:   plaintext.Line(known.Cluster.Name),
		Alarm:     id,
		Title:     title,
		Text:      plaintext.CutRunes(strings.TrimSpace(plaintext.Clean(text)), MaxTextLength),
		Count:     occ.Increase,
		FirstSeen: occ.Event.FirstSeen,
		LastSeen:  occ.Event.LastSeen,
		Events:    []Event{event},
	}
}

// foreignNamespace returns the namespace of an Event that is not in the namespace of its object, or
// nothing. The API server lets only administrators write such Events about cluster-scoped objects.
func foreignNamespace(event *alarm.Event) string {
	if event.Regarding.Namespace == "" || !event.IsForeign() {
		return ""
	}
	return event.Namespace
}

// originOf returns what names an object's Event of another namespace.
func originOf(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " (Event in namespace " + namespace + ")"
}

// objectName returns a name like "Pod default/web-0" or "Node node-0".
func objectName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}

// DefaultText contains the Event's note, its cause if known, and extra lines.
func DefaultText(occ *alarm.Occurrence, object *alarm.Object, extra ...string) string {
	lines := []string{shortNote(&occ.Event)}
	if cause := field(object.Cause); cause != "" {
		lines = append(lines, "Cause: "+cause)
	}
	return strings.TrimSpace(strings.Join(append(lines, extra...), "\n"))
}

// shortNote returns the note of an Event without the namespace and the UID that a kubelet adds to the
// name of a pod. The title contains the namespace.
func shortNote(event *alarm.Event) string {
	pod := &event.Regarding
	if pod.UID == "" {
		return event.Note
	}
	return strings.ReplaceAll(event.Note, "_"+pod.Namespace+"("+pod.UID+")", "")
}

// EventCounts returns the line that counts the occurrences of an Event.
func EventCounts(occ *alarm.Occurrence) string {
	event := &occ.Event
	if event.Count <= 1 {
		return counts(1, 1, event.LastSeen)
	}
	return counts(event.Count, occ.Increase, event.FirstSeen)
}

// counts returns the only line of a message that counts occurrences: how many there were, and
// how many of them the message reports. since is the time of the first.
func counts(total, reported int64, since time.Time) string {
	if total <= 1 {
		return joinTime("Once", "at", since)
	}
	line := joinTime(fmt.Sprintf("%d times", total), "since", since)
	if 0 < reported && reported < total {
		line += fmt.Sprintf(", %d new", reported)
	}
	return line
}

// joinTime omits a time that is not known.
func joinTime(what, preposition string, t time.Time) string {
	if t.IsZero() {
		return what
	}
	return fmt.Sprintf("%s %s %s", what, preposition, t.UTC().Format(timeLayout))
}

func messageEvent(occ *alarm.Occurrence, object *alarm.Object) Event {
	event := &occ.Event
	return Event{
		Type:      field(event.Type),
		Reason:    field(event.Reason),
		Note:      plaintext.CutRunes(strings.TrimSpace(plaintext.Clean(event.Note)), MaxFieldLength),
		Count:     occ.Increase,
		FirstSeen: event.FirstSeen,
		LastSeen:  event.LastSeen,
		Regarding: Reference{
			APIVersion: field(event.Regarding.APIVersion),
			Kind:       field(event.Regarding.Kind),
			Namespace:  field(event.Regarding.Namespace),
			Name:       field(event.Regarding.Name),
			UID:        field(event.Regarding.UID),
		},
		EventNamespace: field(foreignNamespace(event)),
		Object: Object{
			Labels:      fields(object.Metadata.Labels),
			Annotations: fields(object.Metadata.Annotations),
			Owner:       Owner{Kind: field(object.Owner.Kind), Name: field(object.Owner.Name)},
			Cause:       field(object.Cause),
		},
		ReportingController: field(event.ReportingController),
	}
}

// field returns a text as one line of limited length. The API server restricts few fields
// of Events.
func field(s string) string {
	return plaintext.CutRunes(plaintext.Line(s), MaxFieldLength)
}

// fields copies labels or annotations, in the order of their keys, up to maxFieldsLength.
// Annotations can have 256 KiB, and every message of a flood would contain them. Long
// values are omitted, not cut: they are configuration that readers of an alarm do not
// need.
func fields(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	kept := make(map[string]string, len(m))
	space := maxFieldsLength
	for _, key := range slices.Sorted(maps.Keys(m)) {
		size := len(key) + len(m[key])
		if len(m[key]) > MaxFieldLength || size > space {
			continue
		}
		space -= size
		kept[key] = plaintext.Clean(m[key])
	}
	return kept
}
