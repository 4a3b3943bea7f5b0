package message

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// ComposeGroup makes one message of those of a group, the oldest first; count is of
// all of them, also of those that are not given.
func Compose(group Group, parts []Message, count int64) Message {
	m := Combine(parts)
	m.Digest, m.Group, m.Count = false, &group, count
	lines := []string{m.Text}
	if len(parts) > 1 {
		newest := &parts[len(parts)-1]
		if sameSubject(m.Events) { // the newest says it best
			m.Title, lines[0] = newest.Title, newest.Text
		} else {
			first, _, _ := strings.Cut(newest.Text, "\n")
			lines = append(lines, "Latest: "+plaintext.CutRunes(first, maxLineLength))
		}
	}
	if len(group.By) == 0 {
		lines = append(lines, "There are too many groups: this stands for all beyond them.")
	}
	if group.Total > count {
		lines = append(lines, joinTime(fmt.Sprintf("%d new, %d in all", count, group.Total), "since", group.Since))
	}
	m.Title = cmp.Or(m.Title, fmt.Sprintf("%d occurrences", count))
	if group.Resolved {
		m.Title = plaintext.CutRunes("Resolved: "+m.Title, MaxTitleLength)
	}
	m.Text = appendLines(lines[0], lines[1:])
	return m
}

// theSame says whether the same happened to one object, whatever the notes say.
func sameSubject(events []Event) bool {
	return !slices.ContainsFunc(events, func(e Event) bool {
		return e.Reason != events[0].Reason || e.Regarding != events[0].Regarding
	})
}

// withTail puts lines below a text, of which it takes as much as there is room for.
func appendLines(text string, lines []string) string {
	tail := strings.Join(lines, "\n")
	return strings.TrimSpace(plaintext.CutRunes(text, MaxTextLength-len(tail)-1) + "\n" + tail)
}
