package alarm

import (
	"cmp"
	"fmt"
	"strings"
)

// ComposeGroup makes one message of those of a group, the oldest first; count is of
// all of them, also of those that are not given.
func ComposeGroup(group MessageGroup, parts []Message, count int64) Message {
	m := Combine(parts)
	m.Digest, m.Group, m.Count = false, &group, count
	if len(parts) > 1 && parts[0].Alarm != (ID{}) {
		m.Alarm = parts[0].Alarm
	}
	if group.Resolved {
		m.Title = cut("Resolved: "+m.Title, maxTitleLength)
	}
	var lines []string
	if len(group.By) == 0 {
		lines = append(lines, "There are too many groups: this stands for all beyond them.")
	}
	if group.Total > count {
		lines = append(lines, joinTime(fmt.Sprintf("%d new, %d in all", count, group.Total), "since", group.Since))
	}
	if len(lines) > 0 {
		tail := strings.Join(lines, "\n")
		m.Text = strings.TrimSpace(cut(m.Text, maxTextLength-len(tail)-1) + "\n" + tail)
	}
	m.Title = cmp.Or(m.Title, fmt.Sprintf("%d occurrences", count))
	return m
}
