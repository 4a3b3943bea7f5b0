package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// Rehearsal is what an alarm would have made of occurrences.
type DryRunResult struct {
	// Evaluations are those that the alarm has something to say about, in the order in
	// which they were observed.
	Evaluations []Evaluation
	// Messages in the order in which they would have been sent.
	Messages []DryRunMessage
	// OverBudget: some occurrences were not looked at, for that would cost too much.
	OverBudget bool
}

// Evaluation is what became of an occurrence.
type Evaluation struct {
	Occurrence alarm.Occurrence
	Outcome    match.Outcome
	// Err is the failure of an expression, if any.
	Err error
	// Suppressed says why what matched is not sent; empty if it is.
	Suppressed Suppression
	// By is what its group has in common, if the alarm has groups.
	By []alarm.GroupValue
	// Alone is what is sent of this occurrence if it matched and nothing holds it back
	// or puts it together with others.
	Alone message.Message
	// Message is the index in Rehearsal.Messages of the one that it is part of; -1 if
	// it is part of none.
	Message int
}

// Rehearsed is a message and when it would have been sent, but for rates and failures
// of its receiver.
type DryRunMessage struct {
	At time.Time
	message.Message
}

// Rehearse runs occurrences through the whole way of the pipeline but its ends: nothing
// is sent. The clock is when they were observed, and never later than now. The alarm has
// one receiver; dir is an empty directory for a ledger that is of no use afterwards.
func DryRun(ctx context.Context, dir string, a *match.Alarm, occurrences []alarm.Occurrence, namespaces match.Namespaces, enricher Enricher, now time.Time) (*DryRunResult, error) {
	clk := &manualClock{}
	books, err := outbox.Open(ctx, dir, outbox.WithClock(clk))
	if err != nil {
		return nil, err
	}
	alarms := NewAlarms()
	alarms.Set("rehearsed", "1", a)
	r := &dryRun{
		DryRunResult: &DryRunResult{}, alarm: a, now: now, clock: clk, outbox: books,
		matcher: matcher{alarms: alarms, namespaces: namespaces, enricher: enricher, budget: newBudget(clk)},
		waiting: map[string][]int{},
	}
	occurrences = slices.Clone(occurrences)
	_, _ = capObservedAt(occurrences, now)
	slices.SortStableFunc(occurrences, func(a, b alarm.Occurrence) int {
		return cmp.Or(a.ObservedAt.Compare(b.ObservedAt), cmp.Compare(a.Position, b.Position))
	})
	return r.DryRunResult, errors.Join(r.run(ctx, occurrences), books.Close())
}

// stoppedClock stands until it is set.
type manualClock struct{ time.Time }

// Now returns what it was set to.
func (c *manualClock) Now() time.Time { return c.Time }

// Since goes by that too.
func (c *manualClock) Since(t time.Time) time.Duration { return c.Sub(t) }

type dryRun struct {
	*DryRunResult
	alarm   *match.Alarm
	now     time.Time
	clock   *manualClock
	outbox  *outbox.Store
	matcher matcher

	position uint64
	// waiting are the indices in Judged of what is in no message yet: by the key of
	// the group, or, without groups, of the entry.
	waiting map[string][]int
}

// atOnce is how many occurrences are judged together at most, as of the feed.
const maxBatch = 512

func (r *dryRun) run(ctx context.Context, occurrences []alarm.Occurrence) error {
	for len(occurrences) > 0 {
		if err := r.releaseUntil(ctx, occurrences[0].ObservedAt); err != nil {
			return err
		}
		n, err := r.countBeforeDue(ctx, occurrences)
		if err != nil {
			return err
		}
		if err := r.handle(ctx, occurrences[:n]); err != nil {
			return err
		}
		occurrences = occurrences[n:]
	}
	return r.releaseUntil(ctx, time.Time{})
}

// before returns how many occurrences come before any message of a group is due, those
// of groups that they open themselves included.
func (r *dryRun) countBeforeDue(ctx context.Context, occurrences []alarm.Occurrence) (int, error) {
	n := min(len(occurrences), maxBatch)
	g := r.alarm.Grouping()
	if g == nil {
		return n, nil
	}
	end, err := r.outbox.NextDue(ctx)
	if first := occurrences[0].ObservedAt.Add(g.Wait + time.Second); end.IsZero() || first.Before(end) {
		end = first
	}
	for i := range occurrences[:n] {
		if !occurrences[i].ObservedAt.Before(end) {
			return i, err
		}
	}
	return n, err
}

// handle is Pipeline.handle without receivers.
func (r *dryRun) handle(ctx context.Context, occurrences []alarm.Occurrence) error {
	r.clock.Time = occurrences[0].ObservedAt
	for i := range occurrences {
		r.position = max(r.position, occurrences[i].Position)
	}
	j, err := r.matcher.decide(ctx, r.outbox, source.Batch{Occurrences: occurrences, Position: r.position}, outbox.Floors{}, r.now)
	if err != nil {
		return err
	}
	if err := r.outbox.Commit(ctx, j.batch); err != nil {
		return err
	}
	r.OverBudget = r.OverBudget || len(j.skipped) > 0
	for i, verdicts := range j.evaluations {
		for k := range verdicts {
			r.record(&occurrences[i], &verdicts[k])
		}
	}
	return r.drain(ctx)
}

func (r *dryRun) record(occ *alarm.Occurrence, v *evaluation) {
	if v.outcome == match.Matched && v.suppressed == "" {
		key := alarm.Key(r.alarm.Receivers[0], r.alarm.UID, occ)
		if r.alarm.Grouping() != nil {
			key = alarm.GroupKey(r.alarm.UID, v.by...)
		}
		r.waiting[key] = append(r.waiting[key], len(r.Evaluations))
	}
	r.Evaluations = append(r.Evaluations, Evaluation{
		Occurrence: *occ, Outcome: v.outcome, Err: v.err, Suppressed: v.suppressed,
		By: v.by, Alone: v.message, Message: -1,
	})
}

// releaseUntil makes the messages of groups that are due up to a time; all of them, if
// it is zero.
func (r *dryRun) releaseUntil(ctx context.Context, until time.Time) error {
	for {
		due, err := r.outbox.NextDue(ctx)
		if err != nil || due.IsZero() || !until.IsZero() && due.After(until) {
			return err
		}
		r.clock.Time = due
		if _, err := r.outbox.Release(ctx, composeGroup); err != nil {
			return err
		}
		if err := r.drain(ctx); err != nil {
			return err
		}
	}
}

// drain takes what is in the outbox for sent.
func (r *dryRun) drain(ctx context.Context) error {
	receiver := r.alarm.Receivers[0]
	entries, err := r.outbox.Pending(ctx, receiver, 0, maxBacklog)
	if err != nil || len(entries) == 0 {
		return err
	}
	for i := range entries {
		m := DryRunMessage{At: r.clock.Time}
		if err := json.Unmarshal(entries[i].Payload, &m.Message); err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		key := entries[i].Key
		if m.Group != nil {
			key = m.Group.Key
		}
		for _, part := range r.waiting[key] {
			r.Evaluations[part].Message = len(r.Messages)
			if m.Group == nil {
				m.At = r.Evaluations[part].Occurrence.ObservedAt
			}
		}
		delete(r.waiting, key)
		r.Messages = append(r.Messages, m)
	}
	_, err = r.outbox.DropOlderThan(ctx, receiver, r.clock.Add(time.Hour))
	return err
}
