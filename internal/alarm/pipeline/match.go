package pipeline

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// matchers is how many occurrences are matched at once: most of the time is spent
// waiting for the object that an Event regards.
const matchConcurrency = 8

// Enricher looks up what is known about an Event's surroundings.
type Enricher interface {
	Context(ctx context.Context, event *alarm.Event) alarm.Context
}

// verdict is what became of one alarm and one occurrence.
type evaluation struct {
	alarm   *match.Alarm
	outcome match.Outcome
	err     error
	message message.Message
	// by is what the occurrence's group has in common, if the alarm has groups.
	by []alarm.GroupValue
	// suppressed says why what matched is not sent; empty if it is.
	suppressed Suppression
	// again: it was told of before, to all receivers. It is looked at once more only
	// for the sake of what is remembered of it.
	replayed bool
}

// matcher decides which alarms a batch of occurrences matches.
type matcher struct {
	alarms     *Alarms
	namespaces match.Namespaces
	enricher   Enricher
	budget     *budget
}

// match returns the verdicts on each occurrence, in the occurrences' order, and the
// Alarms that were not asked about each, for they are over their budget. Most occurrences are of interest to
// nobody; the others are looked up side by side. Of those at or below the floors of
// all of an alarm's receivers there are verdicts only if the alarm remembers them.
func (m *matcher) match(ctx context.Context, occurrences []alarm.Occurrence, floors outbox.Floors) ([][]evaluation, []*match.Alarm, error) {
	index := m.alarms.Index()
	meters := m.budget.newMeters()
	verdicts := make([][]evaluation, len(occurrences))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(matchConcurrency)
	for i := range occurrences {
		occ := &occurrences[i]
		candidates := index.Candidates(occ, m.namespaces, meters.forNamespace(index, occ.Event.Namespace))
		candidates = slices.DeleteFunc(candidates, func(c match.Candidate) bool {
			return c.Alarm.Window() == 0 && deliveredToAll(c.Alarm, occ, floors)
		})
		if len(candidates) == 0 {
			continue
		}
		group.Go(func() error {
			verdicts[i] = m.evaluate(ctx, occ, candidates, floors)
			return ctx.Err()
		})
	}
	err := group.Wait()
	var unasked []*match.Alarm
	for _, namespace := range meters.charge() {
		unasked = append(unasked, index.AlarmsIn(namespace)...)
	}
	return verdicts, unasked, err
}

func (m *matcher) evaluate(ctx context.Context, occ *alarm.Occurrence, candidates []match.Candidate, floors outbox.Floors) []evaluation {
	known := m.enricher.Context(ctx, &occ.Event)
	verdicts := make([]evaluation, 0, len(candidates))
	for _, c := range candidates {
		result := c.Match(ctx, &known)
		v := evaluation{alarm: c.Alarm, outcome: result.Outcome, err: result.Err, replayed: deliveredToAll(c.Alarm, occ, floors)}
		if v.outcome == match.Matched {
			var err error
			v.message, err = c.Render(ctx, &known)
			if g := c.Alarm.Grouping(); g != nil {
				v.by = g.Values(&occ.Event, &known.Object)
			}
			if v.err == nil {
				v.err = err
			}
		}
		if v.outcome != match.NotMatched || v.err != nil {
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

// served says whether all receivers of the alarm were served the occurrence before.
func deliveredToAll(a *match.Alarm, occ *alarm.Occurrence, floors outbox.Floors) bool {
	for _, receiver := range a.Receivers {
		if !floors.Served(receiver, alarm.Key(receiver, a.UID, occ), occ.Position) {
			return false
		}
	}
	return len(a.Receivers) > 0 || occ.Position <= floors.Default
}
