package message

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxNamed is how many objects a line of a digest names.
const maxNamed = 3

// maxLineLength of a line of a digest, in characters.
const maxLineLength = 500

// Combine makes one message of several, as a Combiner does.
func Combine(messages []Message) Message {
	c := NewCombiner()
	for i := range messages {
		c.Add(messages[i])
	}
	return c.Message()
}

// groupKey is what a line of a digest counts together.
type groupKey struct{ reason, kind string }

// eventGroup is a line of a digest: what happened to objects of one kind.
type eventGroup struct {
	groupKey
	count int64
	// objects are hashes of the different objects; named are the first of them.
	objects map[uint64]struct{}
	names   []string
}

// name has the group name the event's object, as long as there is room.
func (g *eventGroup) addName(e *Event) {
	name := objectName("", e.Regarding.Namespace, e.Regarding.Name)
	if len(g.names) < maxNamed && !slices.Contains(g.names, name) {
		g.names = append(g.names, name)
	}
}

// String is "37 × BackOff Pod".
func (g *eventGroup) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d × %s %s", g.count, g.reason, g.kind))
}

// line is "37 × BackOff Pod: default/web-0, default/web-1 and 12 more".
func (g *eventGroup) line() string {
	line := g.String()
	if len(g.names) == 0 {
		return plaintext.CutRunes(line, maxLineLength)
	}
	line += ": " + strings.Join(g.names, ", ")
	if more := len(g.objects) - len(g.names); more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	return plaintext.CutRunes(line, maxLineLength)
}

func compareGroups(a, b *eventGroup) int {
	return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.reason, b.reason), strings.Compare(a.kind, b.kind))
}

// digestText returns the title, which names what is most frequent, and the text:
// as many lines as fit, and how many occurrences no line speaks of.
func digestText(count int64, groups []*eventGroup) (title, text string) {
	var lines []string
	rest, room := count, MaxTextLength-len("and 9223372036854775807 more")
	for _, g := range groups {
		line := g.line()
		room -= utf8.RuneCountInString(line) + len("\n")
		if room < 0 {
			break
		}
		lines = append(lines, line)
		rest -= g.count
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", rest))
	}
	return plaintext.CutRunes(digestTitle(count, groups), MaxTitleLength), strings.Join(lines, "\n")
}

func digestTitle(count int64, groups []*eventGroup) string {
	switch {
	case len(groups) == 0:
		return fmt.Sprintf("%d occurrences", count)
	case groups[0].count == count:
		return groups[0].String()
	default:
		return fmt.Sprintf("%d occurrences: %s and %d more", count, groups[0], count-groups[0].count)
	}
}
