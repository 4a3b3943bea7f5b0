package notify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// IsWarning says whether any of the message's Events is a Warning.
func IsWarning(m *message.Message) bool {
	return slices.ContainsFunc(m.Events, func(e message.Event) bool { return e.Type == "Warning" })
}

// Origin is "Alarm shop/crashes", "ClusterAlarm nodes", or nothing for a digest of
// several alarms.
func Origin(id alarm.ID) string {
	switch {
	case id.Name == "":
		return ""
	case id.Namespace == "":
		return id.Kind + " " + id.Name
	default:
		return id.Kind + " " + id.Namespace + "/" + id.Name
	}
}

// IsResolved says whether what the message's group is about is over.
func IsResolved(m *message.Message) bool { return m.Group != nil && m.Group.Resolved }

// Headline is one line that is never empty: what happened, behind a mark that shows
// at a glance that something is wrong, or is no more. It is not escaped.
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

// Footer is one line that says where a message comes from and since when; it may be
// empty, and is not escaped.
func Footer(m *message.Message) string {
	parts := []string{plaintext.Line(m.Cluster), Origin(m.Alarm), when(m)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// when is empty of a message that does not tell.
func when(m *message.Message) string {
	date := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	switch {
	case m.LastSeen.IsZero():
		return ""
	case m.FirstSeen.IsZero(), m.FirstSeen.Equal(m.LastSeen):
		return date(m.LastSeen)
	default:
		return "since " + date(m.FirstSeen)
	}
}
