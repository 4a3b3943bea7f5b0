package notify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// IsWarning reports whether any of the message's Events is a Warning.
func IsWarning(m *message.Message) bool {
	return slices.ContainsFunc(m.Events, func(e message.Event) bool { return e.Type == "Warning" })
}

// Origin returns "Alarm shop/crashes" or "ClusterAlarm nodes". It is empty for a digest
// of several alarms.
func Origin(id kube.Key) string {
	if id.Name == "" {
		return ""
	}
	return id.Display()
}

// IsResolved reports whether the message resolves its group.
func IsResolved(m *message.Message) bool { return m.Group != nil && m.Group.Resolved }

// Color returns the color of a message, as 0xRRGGBB: red for a warning, green for a resolved group,
// and blue for others.
func Color(m *message.Message) int {
	switch {
	case IsResolved(m):
		return 0x3FA45B
	case IsWarning(m):
		return 0xD93F3F
	default:
		return 0x4A90D9
	}
}

// Headline returns the title as one line, which is never empty. A symbol before it marks
// warnings and resolved groups. The result is not escaped.
func Headline(m *message.Message) string {
	title := cmp.Or(plaintext.Line(m.Title), Origin(m.Alarm), "Alarm")
	switch {
	case IsResolved(m):
		return "✅ " + title
	case IsWarning(m):
		return "⚠️ " + title
	default:
		return title
	}
}

// Footer returns one line with the message's origin and time. It may be empty and is
// not escaped.
func Footer(m *message.Message) string {
	parts := []string{plaintext.Line(m.Cluster), Origin(m.Alarm), When(m, formatTime)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// When returns the time of the message, or since when it occurs if it occurred more
// than once. It is empty if the time is unknown.
func When(m *message.Message, format func(time.Time) string) string {
	switch {
	case m.LastSeen.IsZero():
		return ""
	case m.FirstSeen.IsZero(), m.FirstSeen.Equal(m.LastSeen):
		return format(m.LastSeen)
	default:
		return "since " + format(m.FirstSeen)
	}
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
