package trial

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/spelling"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// maxNearMisses is the number of near misses in a report, maxPrintedNearMisses in a text.
const (
	maxNearMisses        = 20
	maxPrintedNearMisses = 5
)

// maxMissedObjects is the number of objects that are read for near misses of an alarm.
const maxMissedObjects = 200

// maxMissGroups limits the memory for near misses that differ.
const maxMissGroups = 1000

// addNearMisses adds the near misses among the Events to a report, the most useful first. It
// notes what a limit left out.
func (t *test) addNearMisses(ctx context.Context, a *Alarm, occurrences []alarm.Occurrence, report *AlarmReport) {
	newestFirst := slices.Clone(occurrences)
	slices.SortStableFunc(newestFirst, func(a, b alarm.Occurrence) int { return b.ObservedAt.Compare(a.ObservedAt) })
	var found missCounter
	for i := range newestFirst {
		occ := &newestFirst[i]
		miss := a.compiled.NearMiss(ctx, occ, t.reader, sync.OnceValue(func() *alarm.Context {
			if found.reads++; found.reads > maxMissedObjects {
				return &alarm.Context{ObjectUnread: "too many objects", NodesUnread: "too many objects"}
			}
			if known, _, ok := t.enricher.Named(ctx, &occ.Event, a.compiled.ReadObjects()); ok {
				return &known
			}
			return new(t.enricher.Context(ctx, &occ.Event))
		}))
		if miss != nil {
			found.add(miss, &occ.Event)
		}
	}
	report.NearMisses, report.NearMissNotes = found.result()
}

// checkExceptions notes excluded reasons that no Event has, if an Event has a similar one.
func checkExceptions(a *Alarm, occurrences []alarm.Occurrence, report *AlarmReport) {
	seen := sets.Set[string]{}
	for i := range occurrences {
		seen.Insert(occurrences[i].Event.Reason)
	}
	for i, m := range a.Object.AlarmSpec().Match {
		_, excluded := match.Split(m.Reasons)
		for _, reason := range excluded {
			if seen.Has(reason) {
				continue
			}
			if similar := spelling.Similar(reason, sets.List(seen)); similar != "" {
				report.Notes = append(report.Notes, fmt.Sprintf("spec.match[%d].reasons: no Event has the reason %s: did you mean %s", i, reason, similar))
			}
		}
	}
}

// missCounter counts near misses. Its zero value is empty.
type missCounter struct {
	byKey map[string]*NearMiss
	// reads is how many Events needed their object. uncounted is how many near misses are not in
	// byKey.
	reads, uncounted int
}

// result returns the near misses, the most useful first, and what a limit left out.
func (c *missCounter) result() (misses []NearMiss, notes []string) {
	misses = make([]NearMiss, 0, len(c.byKey))
	for _, miss := range c.byKey {
		misses = append(misses, *miss)
	}
	slices.SortFunc(misses, compareNearMisses)
	const narrow = ": to compare others, choose a shorter time with --from and --until"
	if unread := c.reads - maxMissedObjects; unread > 0 {
		notes = append(notes, fmt.Sprintf("only the newest %d Events that need their object are compared, not the %d older ones%s",
			maxMissedObjects, unread, narrow))
	}
	if c.uncounted > 0 {
		notes = append(notes, fmt.Sprintf("only %d kinds of near misses are counted, not those of %s%s",
			maxMissGroups, count(c.uncounted, "older Event"), narrow))
	}
	if more := len(misses) - maxNearMisses; more > 0 {
		notes = append(notes, fmt.Sprintf("only the first %d kinds of near misses are reported, not %d others", maxNearMisses, more))
	}
	return misses[:min(len(misses), maxNearMisses)], notes
}

// maxMissText limits the texts of a near miss, in characters.
const maxMissText = 200

// add counts an Event. Events that differ in a value from a list are counted for each value,
// others for each pattern that would match them.
func (c *missCounter) add(miss *match.NearMiss, event *alarm.Event) {
	key := miss.Field + "\x00" + miss.Instead
	switch path.Ext(miss.Field) {
	case ".note", ".names", ".expression":
	default:
		key = miss.Field + "\x00" + miss.Value
	}
	known, ok := c.byKey[key]
	if !ok {
		if len(c.byKey) == maxMissGroups {
			c.uncounted++
			return
		}
		cut := func(s string) string { return plaintext.CutRunes(plaintext.Line(s), maxMissText) }
		known = &NearMiss{
			Field: miss.Field, Value: cut(miss.Value), Instead: cut(miss.Instead), Object: cut(objectOf(event.Regarding)), met: miss.Met,
		}
		if c.byKey == nil {
			c.byKey = map[string]*NearMiss{}
		}
		c.byKey[key] = known
	}
	known.Events++
}

func objectOf(ref alarm.Reference) string {
	return kube.Key{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}.Display()
}

// compareNearMisses puts those first for which there is something to write instead, then those
// that meet many other conditions, then those of many Events.
func compareNearMisses(a, b NearMiss) int {
	rank := func(n NearMiss) int {
		if n.Instead != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.met, a.met), cmp.Compare(b.Events, a.Events),
		strings.Compare(a.Field, b.Field), strings.Compare(a.Value, b.Value), strings.Compare(a.Instead, b.Instead))
}
