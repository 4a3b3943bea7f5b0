package alarm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/plaintext"
)

// Limits of a Message, in characters.
const (
	maxTitleLength = 150
	maxTextLength  = 3000
	// maxFieldLength is of the other texts of a Message. It is the limit that the
	// API server sets to a note, but not to that of an Event written through core/v1.
	maxFieldLength = 1024
	// maxFieldsLength is of an object's labels, or annotations, together, in bytes.
	maxFieldsLength = 8 << 10
)

// timeLayout of times in a default message.
const timeLayout = "2006-01-02 15:04:05 MST"

// Render says what is to be sent of an occurrence that matched. The message is
// fit to send even if there is an error: the first failure of an expression in
// the alarm's message, which stands in the text in its place.
func (a *Alarm) Render(ctx context.Context, occ *Occurrence, known *Context) (Message, error) {
	return a.render(ctx, occ, &variables{event: &occ.Event, context: known})
}

func (a *Alarm) render(ctx context.Context, occ *Occurrence, vars *variables) (Message, error) {
	known := vars.context
	title, titleErr := a.title.orDefault(ctx, vars, defaultTitle)
	text, textErr := a.text.orDefault(ctx, vars, func(*Event) string { return a.defaultText(occ, &known.Object) })
	m := Message{
		Version:   MessageVersion,
		Cluster:   plaintext.Line(known.Cluster.Name),
		Alarm:     a.ID,
		Title:     cut(cmp.Or(plaintext.Line(title), plaintext.Line(defaultTitle(&occ.Event))), maxTitleLength),
		Text:      cut(strings.TrimSpace(plaintext.Clean(text)), maxTextLength),
		Count:     occ.Increase,
		FirstSeen: occ.Event.FirstSeen,
		LastSeen:  occ.Event.LastSeen,
		Events:    []MessageEvent{messageEvent(occ, &known.Object)},
	}
	return m, cmp.Or(titleErr, textErr)
}

// orDefault renders the template, or, where the alarm has none, the default.
func (t *template) orDefault(ctx context.Context, vars *variables, text func(*Event) string) (string, error) {
	if t == nil {
		return text(vars.event), nil
	}
	return t.render(ctx, vars)
}

// defaultTitle is what happened to which object: "BackOff: Pod default/web-0".
func defaultTitle(event *Event) string {
	return fmt.Sprintf("%s: %s", event.Reason, objectName(event.Regarding.Kind, event.Regarding.Namespace, event.Regarding.Name))
}

// objectName is "Pod default/web-0", or "Node node-0".
func objectName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}

// defaultText is why, what is behind it if that is known, how often since when, and
// what it took to be sent.
func (a *Alarm) defaultText(occ *Occurrence, object *Object) string {
	lines := []string{occ.Event.Note}
	if cause := field(object.Cause); cause != "" {
		lines = append(lines, "Cause: "+cause)
	}
	lines = append(lines, frequency(occ))
	if t := a.threshold; t != nil {
		lines = append(lines, fmt.Sprintf("%d or more matched within %s", t.Count, t.Within))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func frequency(occ *Occurrence) string {
	event := &occ.Event
	switch {
	case event.Count <= 1:
		return joinTime("Once", "at", event.LastSeen)
	case occ.Increase > 1 && occ.Increase < event.Count:
		return fmt.Sprintf("%s, %d of them new",
			joinTime(fmt.Sprintf("%d times", event.Count), "since", event.FirstSeen), occ.Increase)
	default:
		return joinTime(fmt.Sprintf("%d times", event.Count), "since", event.FirstSeen)
	}
}

// joinTime leaves out a time that is not known.
func joinTime(what, preposition string, t time.Time) string {
	if t.IsZero() {
		return what
	}
	return fmt.Sprintf("%s %s %s", what, preposition, t.UTC().Format(timeLayout))
}

func messageEvent(occ *Occurrence, object *Object) MessageEvent {
	event := &occ.Event
	return MessageEvent{
		Type:      field(event.Type),
		Reason:    field(event.Reason),
		Note:      cut(strings.TrimSpace(plaintext.Clean(event.Note)), maxFieldLength),
		Count:     occ.Increase,
		FirstSeen: event.FirstSeen,
		LastSeen:  event.LastSeen,
		Regarding: MessageReference{
			APIVersion: field(event.Regarding.APIVersion),
			Kind:       field(event.Regarding.Kind),
			Namespace:  field(event.Regarding.Namespace),
			Name:       field(event.Regarding.Name),
			UID:        field(event.Regarding.UID),
		},
		Object: MessageObject{
			Labels:      fields(object.Metadata.Labels),
			Annotations: fields(object.Metadata.Annotations),
			Cause:       field(object.Cause),
		},
		ReportingController: field(event.ReportingController),
	}
}

// field is a text of one line, bounded: the API server holds those who write
// Events to few rules.
func field(s string) string {
	return cut(plaintext.Line(s), maxFieldLength)
}

// fields copies labels or annotations, in the order of their keys, up to
// maxFieldsLength: whoever owns an object may put 256 KiB into its annotations,
// and each of a flood of messages would carry them. A value that is too long is
// left out: it is configuration, of no use to who reads an alarm, and half of it
// of none to a program.
func fields(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	kept := make(map[string]string, len(m))
	room := maxFieldsLength
	for _, key := range slices.Sorted(maps.Keys(m)) {
		size := len(key) + len(m[key])
		if len(m[key]) > maxFieldLength || size > room {
			continue
		}
		room -= size
		kept[key] = plaintext.Clean(m[key])
	}
	return kept
}
