package message

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Bounds of what a Combiner holds. What is beyond them is counted in the whole,
// and may go without a line or a name.
const (
	maxKeptEvents = 1_000
	maxGroups     = 1_000
	maxObjects    = 100_000
)

// Combiner makes one message of many, one at a time and in bounded memory: it
// says how many of what, the most frequent first.
type Combiner struct {
	messages int
	digest   Message
	events   map[eventKey]*Event
	groups   map[groupKey]*eventGroup
	objects  int // of all groups
	seed     maphash.Seed
}

// NewCombiner returns an empty Combiner.
func NewCombiner() *Combiner {
	return &Combiner{
		events: map[eventKey]*Event{},
		groups: map[groupKey]*eventGroup{},
		seed:   maphash.MakeSeed(),
	}
}

// eventKey is what makes two MessageEvents one.
type eventKey struct {
	regarding    Reference
	reason, note string
}

// Add takes in a message, which may be a digest itself.
func (c *Combiner) Add(m Message) {
	if c.messages++; c.messages == 1 {
		c.digest = m
	} else {
		c.addTotals(&m)
	}
	for i := range m.Events {
		c.addToGroup(&m.Events[i])
		c.keepEvent(&m.Events[i])
	}
}

func (c *Combiner) addTotals(m *Message) {
	d := &c.digest
	d.Count += m.Count
	d.FirstSeen = earlier(d.FirstSeen, m.FirstSeen)
	d.LastSeen = later(d.LastSeen, m.LastSeen)
	if m.Alarm != d.Alarm {
		d.Alarm = alarm.ID{}
	}
}

func (c *Combiner) keepEvent(e *Event) {
	key := eventKey{regarding: e.Regarding, reason: e.Reason, note: e.Note}
	kept, ok := c.events[key]
	switch {
	case ok:
		kept.Count += e.Count
		kept.FirstSeen = earlier(kept.FirstSeen, e.FirstSeen)
		kept.LastSeen = later(kept.LastSeen, e.LastSeen)
	case len(c.events) < maxKeptEvents:
		kept := *e
		c.events[key] = &kept
	}
}

func (c *Combiner) addToGroup(e *Event) {
	key := groupKey{reason: e.Reason, kind: e.Regarding.Kind}
	g, ok := c.groups[key]
	if !ok {
		if len(c.groups) == maxGroups {
			return
		}
		g = &eventGroup{groupKey: key, objects: map[uint64]struct{}{}}
		c.groups[key] = g
	}
	g.count += e.Count
	object := maphash.Comparable(c.seed, [2]string{e.Regarding.Namespace, e.Regarding.Name})
	if _, ok := g.objects[object]; !ok && c.objects < maxObjects {
		g.objects[object] = struct{}{}
		c.objects++
	}
}

// Message returns what was combined: one message as it is, several as a digest.
func (c *Combiner) Message() Message {
	if c.messages < 2 {
		return c.digest
	}
	d := c.digest
	d.Version = Version
	d.Digest, d.Group = true, nil
	events := c.sortedEvents()
	for i := range events {
		e := &events[i]
		if g, ok := c.groups[groupKey{reason: e.Reason, kind: e.Regarding.Kind}]; ok {
			g.addName(e)
		}
	}
	d.Title, d.Text = digestText(d.Count, slices.SortedFunc(maps.Values(c.groups), compareGroups))
	d.Events = events[:min(len(events), MaxListedEvents)]
	return d
}

// sortedEvents are the kept ones, the most frequent first.
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
	)
}

// earlier and later leave out a time that is not known.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
