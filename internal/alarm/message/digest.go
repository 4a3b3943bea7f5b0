package message

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/internal/alarm"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits of a Combiner's memory. Occurrences beyond them are counted, but they have no
// line or name of their own.
const (
	maxKeptEvents = 1_000
	maxGroups     = 1_000
	maxObjects    = 100_000
)

// A tenant can create Events with any counts and reasons. The Events and groups of one namespace
// use half of the memory at most. In a message, the first Events and lines of each namespace
// precede the others.
const (
	namespaceShare = 2
	firstEvents    = 10
	firstLines     = 3
)

// Combiner combines messages into one, in limited memory. You add them one at a time. The
// result says how often each reason occurred, the most frequent first.
type Combiner struct {
	messages int
	digest   Message
	events   map[eventKey]*Event
	groups   map[groupKey]*eventGroup
	objects  int // in all groups
	// subject is what all Events have in common, once there is one.
	subject *subject
	// partial means that there are occurrences that were not added.
	partial bool
	// eventsOf and groupsOf are the numbers of Events and groups of each namespace whose users can
	// have written them.
	eventsOf, groupsOf map[string]int
	seed               maphash.Seed
}

// NewCombiner returns an empty Combiner.
func NewCombiner() *Combiner {
	return &Combiner{
		events: map[eventKey]*Event{},
		groups: map[groupKey]*eventGroup{}, eventsOf: map[string]int{}, groupsOf: map[string]int{},
		seed: maphash.MakeSeed(),
	}
}

// eventKey is the identity of an Event in a digest. Events with equal keys are merged.
type eventKey struct {
	regarding            Reference
	reason, note, author string
}

// Add adds a message, which can be a digest itself.
func (c *Combiner) Add(p Part) {
	m := p.Message
	if c.messages++; c.messages == 1 {
		c.digest = m
	} else {
		c.addTotals(&m)
	}
	listed := int64(0)
	for i := range m.Events {
		c.addToGroup(&m.Events[i])
		c.keepEvent(&m.Events[i])
		listed += m.Events[i].Count
	}
	if listed < m.Count { // what the others are about is not known
		c.subject = &subject{}
	}
}

func (c *Combiner) addTotals(m *Message) {
	d := &c.digest
	d.Count += m.Count
	d.FirstSeen = alarm.Earlier(d.FirstSeen, m.FirstSeen)
	d.LastSeen = alarm.Later(d.LastSeen, m.LastSeen)
	if m.Alarm != d.Alarm {
		d.Alarm = kube.Key{}
	}
	if !maps.Equal(m.NamespaceLabels, d.NamespaceLabels) {
		d.NamespaceLabels = nil
	}
}

func (c *Combiner) keepEvent(e *Event) {
	key := eventKey{regarding: e.Regarding, reason: e.Reason, note: e.Note, author: e.author()}
	kept, ok := c.events[key]
	switch {
	case ok:
		kept.Count += e.Count
		kept.FirstSeen = alarm.Earlier(kept.FirstSeen, e.FirstSeen)
		kept.LastSeen = alarm.Later(kept.LastSeen, e.LastSeen)
	case len(c.events) < maxKeptEvents && c.eventsOf[key.author] < maxKeptEvents/namespaceShare:
		kept := *e
		c.events[key] = &kept
		c.eventsOf[key.author]++
	}
}

func (c *Combiner) addToGroup(e *Event) {
	about := subjectOf(e)
	if c.subject != nil {
		about = c.subject.common(about)
	}
	c.subject = &about
	key := groupKey{reason: e.Reason, kind: e.Regarding.Kind}
	g, ok := c.groups[key]
	if !ok {
		if len(c.groups) == maxGroups || c.groupsOf[e.author()] == maxGroups/namespaceShare {
			return
		}
		c.groupsOf[e.author()]++
		g = &eventGroup{groupKey: key, cause: e.Object.Cause, object: objectIn(e), objects: map[uint64]struct{}{}}
		c.groups[key] = g
	}
	g.count += e.Count
	g.cause = commonClauses(g.cause, e.Object.Cause)
	object := maphash.Comparable(c.seed, [3]string{e.EventNamespace, e.Regarding.Namespace, e.Regarding.Name})
	if _, ok := g.objects[object]; !ok && c.objects < maxObjects {
		g.objects[object] = struct{}{}
		c.objects++
	}
}

// Message returns the combined message. A single message is returned unchanged, several
// become a digest.
func (c *Combiner) Message() Message {
	if c.messages < 2 {
		return c.digest
	}
	d := c.digest
	d.Version = Version
	d.Digest, d.Group, d.URLs = true, nil, nil
	events := c.sortedEvents()
	for _, e := range fairly(events, 1, groupAndNamespaceOf) {
		if g, ok := c.groups[groupKey{reason: e.Reason, kind: e.Regarding.Kind}]; ok {
			g.addName(&e)
		}
	}
	groups := slices.SortedFunc(maps.Values(c.groups), compareGroups)
	d.Title = c.title(groups)
	d.Text = digestText(d.Count, fairly(groups, firstLines, func(g *eventGroup) string { return g.namespace }))
	d.Events = listed(fairly(events, firstEvents, func(e Event) string { return e.author() }))
	return d
}

func groupAndNamespaceOf(e Event) [3]string {
	return [3]string{e.Reason, e.Regarding.Kind, e.author()}
}

// fairly returns the elements in another order: first a number of each owner, then as many of
// those that are left, and so on.
func fairly[T any, K comparable](sorted []T, first int, ownerOf func(T) K) []T {
	turns := map[int][]T{}
	count := map[K]int{}
	for _, element := range sorted {
		owner := ownerOf(element)
		turn := count[owner] / first
		turns[turn] = append(turns[turn], element)
		count[owner]++
	}
	ordered := make([]T, 0, len(sorted))
	for turn := range len(turns) {
		ordered = append(ordered, turns[turn]...)
	}
	return ordered
}

// maxListedSize limits the texts of the Events that a combined message lists, in bytes. The
// first Event is always listed.
const maxListedSize = 64 << 10

// listed returns the first Events, up to the limits of a message.
func listed(events []Event) []Event {
	n, size := 0, 0
	for ; n < min(len(events), MaxListedEvents); n++ {
		if size += events[n].size(); n > 0 && size > maxListedSize {
			break
		}
	}
	return events[:n]
}

// size returns the length of the long texts of an Event.
func (e *Event) size() int {
	size := len(e.Note) + len(e.Object.Cause)
	for _, texts := range []map[string]string{e.Object.Labels, e.Object.Annotations} {
		for key, value := range texts {
			size += len(key) + len(value)
		}
	}
	return size
}

// sortedEvents returns the kept Events, the most frequent first.
func (c *Combiner) sortedEvents() []Event {
	events := make([]Event, 0, len(c.events))
	for _, e := range c.events {
		events = append(events, *e)
	}
	slices.SortFunc(events, compareEvents)
	return events
}

func compareEvents(a, b Event) int {
	return cmp.Or(
		cmp.Compare(b.Count, a.Count),
		strings.Compare(a.Reason, b.Reason),
		strings.Compare(a.Regarding.Kind, b.Regarding.Kind),
		strings.Compare(a.Regarding.Namespace, b.Regarding.Namespace),
		strings.Compare(a.Regarding.Name, b.Regarding.Name),
		strings.Compare(a.Regarding.UID, b.Regarding.UID),
		strings.Compare(a.Regarding.APIVersion, b.Regarding.APIVersion),
		strings.Compare(a.Note, b.Note),
		strings.Compare(a.EventNamespace, b.EventNamespace),
	)
}

// maxNamed is the maximum number of objects that a line of a digest names.
const maxNamed = 3

// maxLineLength is the maximum length of a line of a digest, in characters.
const maxLineLength = 500

// Combine combines messages with a Combiner.
func Combine(messages []Message) Message {
	c := NewCombiner()
	for i := range messages {
		c.Add(Part{Message: messages[i]})
	}
	return c.Message()
}

// groupKey is what all occurrences of a line share.
type groupKey struct{ reason, kind string }

// eventGroup is a line of a digest: one reason for objects of one kind.
type eventGroup struct {
	groupKey
	count int64
	// cause is what the causes of all Events begin with, or empty. object names the object of the first one.
	cause, object string
	// objects are hashes of the distinct objects; names are the names of the first ones.
	objects map[uint64]struct{}
	names   []string
	// namespace is the author of all names, or empty if there are several.
	namespace string
}

// addName adds the name of the Event's object, up to maxNamed.
func (g *eventGroup) addName(e *Event) {
	name := objectName("", e.Regarding.Namespace, e.Regarding.Name) + originOf(e.EventNamespace)
	if len(g.names) == maxNamed || slices.Contains(g.names, name) {
		return
	}
	if len(g.names) == 0 {
		g.namespace = e.author()
	} else if g.namespace != e.author() {
		g.namespace = ""
	}
	g.names = append(g.names, name)
}

// String returns a text like "37 × BackOff Pod". An Event that only resolves a group is not counted.
func (g *eventGroup) String() string {
	if g.count == 0 {
		return strings.TrimSpace(g.reason + " " + g.kind)
	}
	return strings.TrimSpace(fmt.Sprintf("%d × %s %s", g.count, g.reason, g.kind))
}

// line returns a line like "37 × BackOff Pod: default/web-0, default/web-1 and 12 more".
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

// digestText returns a text with as many lines as fit. The last line counts the occurrences that
// no other line includes.
func digestText(count int64, groups []*eventGroup) string {
	var lines []string
	rest, space := count, MaxTextLength-len("and 9223372036854775807 more")
	for _, g := range groups {
		line := g.line()
		space -= utf8.RuneCountInString(line) + len("\n")
		if space < 0 {
			break
		}
		lines = append(lines, line)
		rest -= g.count
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(lines, "\n")
}

// title returns the default title of the combined message, with the most frequent group.
func (c *Combiner) title(groups []*eventGroup) string {
	if len(groups) == 0 {
		return fmt.Sprintf("%d occurrences", c.digest.Count)
	}
	first, more := groups[0], c.digest.Count-groups[0].count
	switch {
	case more > 0:
		return titleOf(*c.subject, fmt.Sprintf("%s and %d more", first, more), "")
	default:
		return titleOf(*c.subject, cmp.Or(first.cause, first.reason), c.objectsOf(first))
	}
}

// objectsOf describes the objects of a group. It is empty if only one of them is known.
func (c *Combiner) objectsOf(g *eventGroup) string {
	switch n := len(g.objects); {
	case n == 1 && c.partial:
		return ""
	case n == 1:
		return g.object
	case c.partial:
		return "at least " + plural(n, g.kind)
	default:
		return plural(n, g.kind)
	}
}

// Compose combines the messages of a group, the oldest first. count is the number of
// occurrences in all of them, including those that are not in parts. The last line counts the
// occurrences of the group, except in the alarm's own text about a single one. The result has the
// alarm's own title if the newest part does.
func Compose(group Group, parts []Part, count int64) Part {
	problems, ends := splitEnds(parts)
	combiner := NewCombiner()
	for i := range problems {
		combiner.Add(problems[i])
	}
	combiner.partial = combiner.digest.Count < count
	m := combiner.Message()
	m.Digest, m.Group, m.Count = false, &group, count
	lines := []string{m.Text}
	if len(parts) > 0 {
		newest := &parts[len(parts)-1]
		m.NamespaceLabels = newest.NamespaceLabels // all are about one namespace
		m.URLs = newest.URLs
		switch {
		case len(parts) == 1:
		case sameSubject(m.Events): // the newest text is the best summary
			last := &problems[len(problems)-1]
			m.Title, lines[0] = last.Title, last.Text
			m.URLs = slices.Concat(last.URLs, newest.URLs)
			if len(ends) > 0 {
				lines = append(lines, newest.summary()...)
			}
		default:
			lines = append(lines, newest.summary()...)
			m.Title = ownTitle(problems, m.Title, count)
		}
	}
	for i := range ends {
		m.Events = listed(append(m.Events, ends[i].Events...))
		m.LastSeen = alarm.Later(m.LastSeen, ends[i].LastSeen)
	}
	if len(group.By) == 0 {
		lines = append(lines, "Too many groups are open: this message covers all others.")
	}
	if group.Total > 1 || group.Total == 1 && !ownText(parts) {
		lines = append(lines, counts(group.Total, count, group.Since))
	}
	m.Title = cmp.Or(m.Title, fmt.Sprintf("%d occurrences", count))
	if group.Resolved && !group.First { // otherwise, no message was about a problem
		m.Title = resolvedTitle(m.Title)
	}
	m.Text = appendLines(lines[0], lines[1:])
	return Part{Message: m, OwnTitle: len(problems) > 0 && problems[len(problems)-1].OwnTitle}
}

// splitEnds separates the parts that only resolve the group. Without a problem, the newest part is
// what the message is about.
func splitEnds(parts []Part) (problems, ends []Part) {
	for i := range parts {
		if parts[i].Count > 0 {
			problems = append(problems, parts[i])
		} else {
			ends = append(ends, parts[i])
		}
	}
	if len(problems) == 0 && len(ends) > 0 {
		return ends[len(ends)-1:], nil
	}
	return problems, ends
}

// ownTitle returns the title of the newest occurrence if it comes from a template of the alarm. If
// those of the others differ, it also says how many occurrences there are. Otherwise, it returns
// byDefault.
func ownTitle(parts []Part, byDefault string, count int64) string {
	newest := &parts[len(parts)-1]
	if !newest.OwnTitle {
		return byDefault
	}
	if !slices.ContainsFunc(parts, func(p Part) bool { return p.Title != newest.Title }) {
		return newest.Title
	}
	return withCount(newest.Title, count)
}

// withCount adds the number of occurrences to the title of one of them.
func withCount(title string, count int64) string {
	more := occurrences(count)
	return plaintext.CutRunes(title, MaxTitleLength-len(more)) + more
}

func occurrences(count int64) string { return fmt.Sprintf(" (%d occurrences)", count) }

func resolvedTitle(title string) string {
	return plaintext.CutRunes("Resolved: "+title, MaxTitleLength)
}

// summary returns the first line of a message below those about several objects, and its cause.
func (m *Message) summary() []string {
	first, _, _ := strings.Cut(m.Text, "\n")
	lines := []string{"Latest: " + plaintext.CutRunes(first, maxLineLength)}
	if n := len(m.Events); n > 0 && m.Events[n-1].Object.Cause != "" {
		lines = append(lines, "Cause: "+plaintext.CutRunes(m.Events[n-1].Object.Cause, maxLineLength))
	}
	return lines
}

// ownText reports whether the text of the newest part comes from a template of the alarm.
func ownText(parts []Part) bool { return len(parts) > 0 && parts[len(parts)-1].OwnText }

// sameSubject reports whether all Events have the same reason and object. Notes can
// differ.
func sameSubject(events []Event) bool {
	return !slices.ContainsFunc(events, func(e Event) bool {
		return e.Reason != events[0].Reason || e.Regarding != events[0].Regarding || e.EventNamespace != events[0].EventNamespace
	})
}

// AppendLine adds a line below a text, which it cuts to make the line fit.
func AppendLine(text, line string) string { return appendLines(text, []string{line}) }

// appendLines adds lines below a text, which it cuts to make them fit.
func appendLines(text string, lines []string) string {
	tail := strings.Join(lines, "\n")
	return strings.TrimSpace(plaintext.CutRunes(text, MaxTextLength-len(tail)-1) + "\n" + tail)
}
