package pipeline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

const (
	// stateTick is how often states that depend on the present time are evaluated, and those
	// that wait for the end of a mute.
	stateTick = 30 * time.Second
	// statePause is the minimum time between two sweeps.
	statePause = time.Second
	// calmShare is how much longer than a sweep because of new states the pause before the next one
	// is. Tenants can change alarms often.
	calmShare = 9
	// retryLeft is when passes continue whose budget was exhausted: it is then full enough.
	retryLeft = costPerBatch / costPerSecond * time.Second
	// lateAfter is how long a pass takes before its alarms report it.
	lateAfter = time.Minute
	// recheckTicks is how often states that depend on labels of namespaces or the number of Nodes
	// are evaluated, in ticks: every five minutes.
	recheckTicks = 10
	// sweepPage is the number of objects that are evaluated in one transaction.
	sweepPage = 100
)

// followStates evaluates states when time can change them, and when alarms change.
func (p *Pipeline) followStates(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := p.Alarms.changedAfter()
		p.states.plan(time.Time{})
		wait, err := p.sweep(ctx)
		p.states.plan(p.Clock.Now().Add(wait))
		if errors.Is(err, file.ErrCorrupt) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			p.Log.Error(err, "states could not be evaluated: retrying")
		}
		p.pause(ctx, statePause, nil, nil)
		p.pause(ctx, wait-statePause, changed, p.states.wake)
	}
	return nil
}

// sweep evaluates what is due. It returns the time until the next sweep.
func (p *Pipeline) sweep(ctx context.Context) (wait time.Duration, err error) {
	now := p.Clock.Now()
	if wall := now.Round(0); wall.Before(p.states.swept) {
		p.states.seen, p.states.due = nil, time.Time{} // the clock was set back: a state that began later begins now
	}
	p.states.swept = now.Round(0)
	done, err := p.Outbox.BeginDecision(ctx) // a batch that uses older alarms must be stored before orphans are read
	if err != nil {
		return stateTick, err
	}
	states, inactive := p.Alarms.statesByStream()
	done()
	streams, err := p.Outbox.Streams.All(ctx)
	if err != nil {
		return stateTick, err
	}
	if (p.states.seen == nil || !now.Before(p.states.calm)) && p.noteStates(states, inactive) {
		defer func() { p.states.calm = p.Clock.Now().Add(calmShare * p.Clock.Since(now)) }()
		if err := p.sweepOrphans(ctx, states, streams); err != nil {
			p.states.seen = nil
			return stateTick, err
		}
	}
	tick := now.Sub(p.states.ticked) >= stateTick
	if err = p.sweepStreams(ctx, streams, states, tick); ctx.Err() != nil {
		return 0, ctx.Err()
	}
	since := p.states.due
	if tick {
		p.states.ticked, since = now, time.Time{}
		p.states.ticks++
	}
	over, dueErr := p.sweepDue(ctx, streams, since, now)
	if err = errors.Join(err, dueErr); err != nil {
		return stateTick, err
	}
	if !over {
		p.states.due = now
	}
	return p.nextSweep(ctx, len(states) > 0, over, now)
}

// noteStates finds the states that are new, and reports whether states changed. The states of others
// are not evaluated again: that would use their budgets.
func (p *Pipeline) noteStates(states map[string][]*match.State, inactive []string) (changed bool) {
	seen := p.states.seen
	changed = seen == nil || len(seen) != len(states) || !slices.Equal(inactive, p.states.inactive)
	for name, all := range states {
		switch {
		case seen == nil:
			p.states.addWhole(name, allStates)
		case !slices.Equal(all, seen[name]):
			changed = true
			p.states.noteFresh(all, seen[name])
		}
	}
	p.states.seen, p.states.inactive = states, inactive
	maps.DeleteFunc(p.states.fresh, func(s *match.State, _ bool) bool { return !slices.Contains(states[s.Resource.Stream()], s) })
	return changed
}

func (p *Pipeline) nextSweep(ctx context.Context, hasStates, over bool, now time.Time) (time.Duration, error) {
	wait := stateTick
	if !hasStates {
		wait = 24 * time.Hour // the next change of an alarm ends it
	}
	if calm := p.states.calm.Sub(now); calm > 0 {
		wait = min(wait, calm) // a change of an alarm can wait
	}
	if !hasStates {
		return wait, nil
	}
	if over {
		wait = min(wait, retryLeft)
	}
	if next := p.states.next(now); !next.IsZero() {
		wait = min(wait, next.Sub(now))
	}
	due, err := p.Outbox.States.Next(ctx, now)
	if !due.IsZero() {
		wait = min(wait, due.Sub(now))
	}
	return wait, err
}

// sweepStreams evaluates what must be evaluated of the streams with states. Streams share budgets:
// the first one that uses them up is the last one in the next sweep.
func (p *Pipeline) sweepStreams(ctx context.Context, streams map[string]outbox.Stream, states map[string][]*match.State, tick bool) (err error) {
	names := slices.Sorted(maps.Keys(states))
	first, found := slices.BinarySearch(names, p.states.over)
	if found {
		first++
	}
	noted := false
	for _, name := range slices.Concat(names[first:], names[:first]) {
		stream := streams[name]
		if !p.isCurrent(&stream) || ctx.Err() != nil {
			p.states.excuse(name, p.Clock.Now())
			continue
		}
		isOver, streamErr := p.sweepStream(ctx, &stream, states[name], tick)
		if streamErr != nil {
			p.states.excuse(name, p.Clock.Now())
		}
		if isOver && !noted {
			p.states.over, noted = name, true
		}
		err = errors.Join(err, streamErr)
	}
	return err
}

// sweepStream evaluates what must be evaluated of a stream. It reports whether a budget is
// exhausted. A walk that fails begins again.
func (p *Pipeline) sweepStream(ctx context.Context, stream *outbox.Stream, states []*match.State, tick bool) (isOver bool, err error) {
	if tick {
		if err := p.addTick(ctx, stream.Name, states); err != nil {
			return false, err
		}
	}
	if slices.ContainsFunc(states, func(s *match.State) bool { return p.states.fresh[s] }) {
		p.states.addWhole(stream.Name, newStates)
	}
	began := p.Clock.Now()
	whole, tenants := p.states.take(stream.Name, began)
	if whole == 0 && len(tenants) == 0 {
		return false, nil
	}
	w := newWalk(whole, tenants, p.states.fresh, began)
	err = p.sweepObjects(ctx, stream, w)
	if err == nil && whole&(allStates|newStates) != 0 {
		err = p.sweepMissing(ctx, stream, w)
	}
	now := p.Clock.Now()
	if err != nil {
		p.states.addWhole(stream.Name, whole)
		p.states.add(stream.Name, tenants, now)
		return false, err
	}
	if whole&(allStates|newStates) != 0 {
		p.states.evaluated(states)
	}
	isOver = len(w.left) > 0
	p.states.add(stream.Name, w.unfinished(), now.Add(max(retryLeft, now.Sub(began))))
	return isOver, nil
}

// addTick adds what is evaluated at a tick. These are states that use the present time or depend on
// what has no watch, and those that had no space. It reports states that are evaluated late.
func (p *Pipeline) addTick(ctx context.Context, stream string, states []*match.State) error {
	for _, tenant := range p.states.late(stream, p.Clock.Now()) {
		p.reportSkipped([]skipped{{p.alarmsOf(tenant), &match.OverBudgetError{Kind: tenant.kind, Namespace: tenant.namespace, Late: true}}})
	}
	full, unread := p.states.takeUnknown(stream)
	if slices.ContainsFunc(states, func(s *match.State) bool { return s.UsesNow }) {
		p.states.addWhole(stream, usingNow)
	}
	if unread || p.states.ticks%recheckTicks == 0 && slices.ContainsFunc(states, (*match.State).UsesOthers) {
		p.states.addWhole(stream, usingOthers)
	}
	return p.retryFull(ctx, stream, full)
}

// alarmsOf returns the alarms of a tenant that have states.
func (p *Pipeline) alarmsOf(tenant tenantID) []*match.Alarm {
	if tenant.kind == alarm.KindClusterAlarm {
		return statesOnly(p.Alarms.Index().ClusterAlarms())
	}
	return statesOnly(p.Alarms.Index().AlarmsIn(tenant.namespace))
}

// retryFull adds the tenants that had no space, if there is some now.
func (p *Pipeline) retryFull(ctx context.Context, stream string, full map[tenantID]bool) error {
	now, passes, still := p.Clock.Now(), map[tenantID]pass{}, map[tenantID]bool{}
	space, err := p.Outbox.Space(ctx)
	if err != nil {
		p.states.addUnknown(stream, full, false)
		return err
	}
	for tenant := range full {
		if fitsState(space, tenant, 2*groupBytes) {
			passes[tenant] = pass{states: allStates, since: now}
		} else {
			still[tenant] = true
		}
	}
	p.states.addUnknown(stream, still, false)
	p.states.add(stream, passes, now)
	return nil
}

// sweepObjects evaluates the states of the objects that a walk selects.
func (p *Pipeline) sweepObjects(ctx context.Context, stream *outbox.Stream, w *walk) error {
	for after := int64(0); ctx.Err() == nil; {
		from, namespaces, more := w.rest(after)
		if !more {
			return nil
		}
		err := p.stateStep(ctx, stream, func(st *stateStep) (err error) {
			st.walk = w
			after, more, err = st.page(ctx, namespaces, from)
			return err
		})
		if err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}

// page evaluates objects after an ID, until the total cost of a step is reached. It returns the
// last ID, and whether there can be more.
func (st *stateStep) page(ctx context.Context, namespaces []string, after int64) (last int64, more bool, err error) {
	page, err := st.p.Outbox.Streams.BaselinePage(ctx, st.stream, namespaces, after, sweepPage)
	for i := 0; i < len(page) && err == nil; i++ {
		if totalSpent(st.allTenants()) >= totalCostPerBatch {
			return after, true, nil
		}
		after = page[i].ID
		err = st.object(ctx, &page[i])
	}
	return after, len(page) == sweepPage, err
}

// sweepMissing ends states of objects that were deleted without a baseline, or while their alarm
// was inactive. An object exists if its namespace had no space.
func (p *Pipeline) sweepMissing(ctx context.Context, stream *outbox.Stream, w *walk) error {
	fresh := map[string]bool{}
	for s := range w.fresh {
		fresh[s.Alarm.UID] = true
	}
	return p.eachLasting(ctx, func(rows []outbox.Lasting) error {
		return p.stateStep(ctx, stream, func(st *stateStep) error {
			for i := range rows {
				if w.whole&allStates == 0 && !fresh[rows[i].Alarm] {
					continue
				}
				if err := st.missing(ctx, stream, &rows[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// missing ends a state of the stream if its object does not exist any more.
func (st *stateStep) missing(ctx context.Context, stream *outbox.Stream, row *outbox.Lasting) error {
	if row.Stream != stream.Name || slices.Contains(stream.Omitted, row.Namespace) {
		return nil
	}
	found, err := st.p.Outbox.Streams.BaselineData(ctx, row.Stream, []string{row.UID})
	if err != nil || len(found) > 0 {
		return err
	}
	return st.gone(ctx, row.UID)
}

// sweepOrphans ends states of streams that no alarm names any more, and removes those of alarms
// that are neither active nor inactive.
func (p *Pipeline) sweepOrphans(ctx context.Context, states map[string][]*match.State, streams map[string]outbox.Stream) error {
	type stateID struct{ stream, alarm, state string }
	active := map[stateID]bool{}
	for stream, all := range states {
		for _, s := range all {
			active[stateID{stream, s.Alarm.UID, s.ID}] = true
		}
	}
	return p.eachLasting(ctx, func(rows []outbox.Lasting) error {
		for i := range rows {
			row := &rows[i]
			if active[stateID{row.Stream, row.Alarm, row.State}] {
				continue
			}
			at := max(row.Position, streams[row.Stream].Position)
			err := p.stateStep(ctx, &outbox.Stream{Name: row.Stream, Position: at}, func(st *stateStep) error {
				return st.orphaned(ctx, row)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// orphaned ends a state that no alarm has. row was read before: alarms and objects can have changed.
func (st *stateStep) orphaned(ctx context.Context, row *outbox.Lasting) error {
	isRow := func(s *match.State) bool { return s.Alarm.UID == row.Alarm && s.ID == row.State }
	if slices.ContainsFunc(st.index.States(row.Stream, row.Namespace), isRow) {
		return nil
	}
	rows, err := st.p.Outbox.States.Of(ctx, row.Stream, row.UID)
	for i := 0; i < len(rows) && err == nil; i++ {
		if rows[i].LastingKey == row.LastingKey {
			err = st.ended(ctx, &rows[i], noteUnselected, st.known(ctx, nil))
		}
	}
	return err
}

// eachLasting calls do with all states that hold, in pages.
func (p *Pipeline) eachLasting(ctx context.Context, do func(rows []outbox.Lasting) error) error {
	for after := int64(0); ctx.Err() == nil; {
		rows, err := p.Outbox.States.Page(ctx, time.Time{}, time.Time{}, after, sweepPage)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := do(rows); err != nil {
			return err
		}
		after = rows[len(rows)-1].ID
	}
	return ctx.Err()
}

// sweepDue evaluates the states that can be reported since a time. It reports whether the budget of
// some of them is exhausted.
func (p *Pipeline) sweepDue(ctx context.Context, streams map[string]outbox.Stream, since, now time.Time) (isOver bool, err error) {
	type object struct{ stream, uid string }
	done, over := map[object]bool{}, map[tenantID]place{}
	for after := int64(0); ctx.Err() == nil; {
		rows, err := p.Outbox.States.Page(ctx, since, now, after, sweepPage)
		if err != nil || len(rows) == 0 {
			return len(over) > 0, err
		}
		for i := range rows {
			row := &rows[i]
			stream, o := streams[row.Stream], object{row.Stream, row.UID}
			if done[o] || !p.canReport(row, now, over) || !p.isCurrent(&stream) {
				continue
			}
			done[o] = true
			if err := p.evaluateDue(ctx, &stream, o.uid, over); err != nil {
				return false, err
			}
		}
		after = rows[len(rows)-1].ID
	}
	return false, ctx.Err()
}

// canReport reports whether the alarm of a row is active and not muted, and has a budget.
func (p *Pipeline) canReport(row *outbox.Lasting, now time.Time, over map[tenantID]place) bool {
	a, _ := p.Alarms.withUID(row.Alarm)
	if a == nil || a.Muted(now) {
		return false
	}
	_, isOver := over[tenantID{a.ID.Kind, row.Namespace}]
	return !isOver
}

// evaluateDue evaluates the states of an object that can be reported, from its baseline. It adds
// tenants whose budget is exhausted.
func (p *Pipeline) evaluateDue(ctx context.Context, stream *outbox.Stream, uid string, over map[tenantID]place) error {
	return p.stateStep(ctx, stream, func(st *stateStep) error {
		st.due, st.left = true, over
		found, err := p.Outbox.Streams.BaselineData(ctx, stream.Name, []string{uid})
		if b, ok := found[uid]; ok && err == nil {
			err = st.object(ctx, &b)
		}
		return err
	})
}

// stateStep evaluates states and commits the result.
func (p *Pipeline) stateStep(ctx context.Context, stream *outbox.Stream, evaluate func(*stateStep) error) error {
	done, err := p.Outbox.BeginDecision(ctx)
	if err != nil {
		return err
	}
	defer done()
	space, err := p.Outbox.Space(ctx)
	if err != nil {
		return err
	}
	st := p.newStateStep(stream.Name, stream.Position, space)
	if err := evaluate(st); err != nil {
		return err
	}
	if st.undecided {
		return errUndecided
	}
	d := p.matcher.newDecision(p.Outbox, space, progress.Offsets{}, st.evaluations)
	st.charge()
	if st.empty() {
		st.finish()
		return nil
	}
	d.change = outbox.Change{Stream: stream.Name}
	if err := d.conclude(ctx, st.occurrences, st.now); err != nil {
		return err
	}
	d.change.Lasting = st.rowChanges(d.evaluations)
	if err := p.Outbox.Commit(ctx, d.change); err != nil {
		return err
	}
	st.finish()
	p.report(st.occurrences, d)
	return nil
}
