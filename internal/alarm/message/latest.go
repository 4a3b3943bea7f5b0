package message

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Latest combines messages about one problem into the newest of them, which then counts the
// occurrences of all. You add them one at a time, the oldest first. They have the same state: if
// one resolves a group, all do.
type Latest struct {
	combiner *Combiner
	newest   Part
	// first is true if any message was the first of its group.
	first bool
	// titlesDiffer is true if the messages do not all have the same title, or count their occurrences in it.
	titlesDiffer bool
}

// NewLatest returns an empty Latest.
func NewLatest() *Latest { return &Latest{combiner: NewCombiner()} }

// Add adds a message.
func (l *Latest) Add(p Part) {
	l.titlesDiffer = l.titlesDiffer || l.combiner.messages > 0 && p.Title != l.newest.Title || p.Title != uncounted(&p)
	l.combiner.Add(p)
	l.newest = p
	l.first = l.first || p.Group != nil && p.Group.First
}

// Message returns the combined message. A single message is returned unchanged.
func (l *Latest) Message() Message {
	if l.combiner.messages < 2 {
		return l.newest.Message
	}
	all, m := l.combiner.Message(), l.newest.Message
	m.Count, m.FirstSeen, m.LastSeen, m.Events = all.Count, all.FirstSeen, all.LastSeen, all.Events
	if m.Group != nil {
		group := *m.Group
		group.First = l.first
		m.Group = &group
	}
	if sameSubject(m.Events) {
		m.Text = l.recount(m.Count, m.FirstSeen)
		return m
	}
	m.Text = all.Text // the newest text is about some of them only
	if m.Group != nil {
		m.Text = AppendLine(m.Text, counts(m.Group.Total, m.Count, m.Group.Since))
	}
	switch {
	case l.newest.OwnTitle && l.titlesDiffer:
		m.Title = withCount(uncounted(&l.newest), m.Count)
	case l.newest.OwnTitle:
	case m.Group != nil && m.Group.Resolved:
		m.Title = resolvedTitle(all.Title)
	default:
		m.Title = all.Title
	}
	return m
}

// uncounted returns the title of a message without the number of its occurrences.
func uncounted(p *Part) string { return strings.TrimSuffix(p.Title, occurrences(p.Count)) }

// recount returns the newest text, in which the line with counts is about all messages. since is
// the time of their first occurrence.
func (l *Latest) recount(reported int64, since time.Time) string {
	if g := l.newest.Group; g != nil {
		since = g.Since
	}
	lines := strings.Split(l.newest.Text, "\n")
	for i, line := range slices.Backward(lines) {
		if total, ok := countsOf(&l.newest.Message, line); ok {
			lines[i] = counts(max(total, reported), reported, since)
			return plaintext.CutRunes(strings.Join(lines, "\n"), MaxTextLength)
		}
	}
	return AppendLine(l.newest.Text, counts(reported, reported, since))
}

// countsOf returns the number of all occurrences in a line of a message, if it is the line with
// counts.
func countsOf(m *Message, line string) (total int64, ok bool) {
	if g := m.Group; g != nil {
		return g.Total, line == counts(g.Total, m.Count, g.Since)
	}
	if line == counts(1, 1, m.LastSeen) {
		return 1, true
	}
	if _, err := fmt.Sscanf(line, "%d times", &total); err != nil {
		return 0, false
	}
	return total, line == counts(total, m.Count, m.FirstSeen)
}
