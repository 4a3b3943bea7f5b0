package pipeline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/objects"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// errUndecided makes the source retry a batch of changes.
var errUndecided = errors.New("the labels of a namespace, or the number of Nodes, are not known yet")

// handleChanges decides and commits one batch of changes, with the states that they change. If
// something that a change needs is not known yet, it returns an error, and the source retries.
func (p *Pipeline) handleChanges(ctx context.Context, b objects.Batch) error {
	now := p.Clock.Now()
	setReadAt(b.Changes, now)
	handled := b.Stream.Delivered
	evaluations, skipped, err := p.matcher.match(ctx, b.Changes, handled)
	if err != nil {
		return err
	}
	if isUndecided(evaluations) {
		return errUndecided
	}
	done, err := p.Outbox.BeginDecision(ctx)
	if err != nil {
		return err
	}
	defer done()
	space, err := p.Outbox.Space(ctx)
	if err != nil {
		return err
	}
	st, err := p.statesOf(ctx, &b, space)
	if err != nil {
		return err
	}
	occurrences := slices.Concat(b.Changes, st.occurrences)
	d := p.matcher.newDecision(p.Outbox, space, handled, slices.Concat(evaluations, st.evaluations))
	d.skipped = skipped
	st.charge()
	step := &outbox.ObjectStep{Stream: b.Stream, Put: b.Put, Delete: b.Delete, Incomplete: map[string]bool{}}
	d.change = outbox.Change{Objects: step}
	if err := d.conclude(ctx, occurrences, now); err != nil {
		return err
	}
	d.change.Lasting = st.rowChanges(d.evaluations[len(b.Changes):])
	if err := p.Outbox.Commit(ctx, d.change); err != nil {
		return err
	}
	p.report(occurrences, d)
	st.finish()
	p.reportIncomplete(b.Stream.Name, step.Incomplete)
	if b.Lost != "" {
		p.Reporter.Reset(ctx, b.Lost)
	}
	return nil
}

// reportIncomplete reports that the next change and the states of objects in these namespaces cannot
// be found, because their values are not kept.
func (p *Pipeline) reportIncomplete(stream string, namespaces map[string]bool) {
	index := p.Alarms.Index()
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		for _, a := range index.StreamAlarms(stream, namespace, p.Namespaces) {
			p.Reporter.Evaluated(a.ID, match.Failed, &match.OverBudgetError{Kind: a.ID.Kind, Namespace: namespace, Changes: true}, 0)
		}
	}
}

func isUndecided(evaluations [][]evaluation) bool {
	for i := range evaluations {
		for j := range evaluations[i] {
			if evaluations[i][j].outcome == match.Undecided {
				return true
			}
		}
	}
	return false
}

// collectNeeds is how long followNeeds waits for further changes of alarms.
const collectNeeds = time.Second

// followNeeds gives the source what the active alarms need. It does so again after changes of
// alarms, which it collects, because Needs locks the alarms.
func (p *Pipeline) followNeeds(ctx context.Context) error {
	for {
		changed := p.Alarms.changedAfter()
		p.Changes.SetNeeds(p.Alarms.Needs())
		p.Changes.SetReads(p.Alarms.Reads())
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		alarm.Sleep(ctx, p.Clock, collectNeeds)
	}
}
