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
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// DryRunResult is what an alarm would have done with past occurrences.
type DryRunResult struct {
	// Evaluations are the results for the occurrences that the alarm matches, or whose
	// evaluation failed, in the order in which they were observed.
	Evaluations []Evaluation
	// Messages are in the order in which they would have been sent.
	Messages []DryRunMessage
	// OverBudget is set if some occurrences were not evaluated because the alarm is too
	// expensive.
	OverBudget *match.OverBudgetError
}

// Evaluation is the result for one occurrence.
type Evaluation struct {
	Occurrence alarm.Occurrence
	Outcome    match.Outcome
	// Err is the failure of an expression, if any.
	Err error
	// Suppressed says why the occurrence is not sent; empty if it is.
	Suppressed Suppression
	// Chosen are the keys of the receivers that a label chooses. NoReceiver is set if a label that
	// exists chooses none.
	Chosen     []string
	NoReceiver *match.NoReceiverError
	// By contains the values of the occurrence's group, if the alarm has groups. Lacks is a key of
	// spec.group.by that the object does not have.
	By    []alarm.GroupValue
	Lacks string
	// Alone is the message that contains only this occurrence, if it matched.
	Alone message.Message
	// Message is the index in DryRunResult.Messages of the message that contains the
	// occurrence, or -1.
	Message int
}

// DryRunMessage is a message and the time at which it would have been sent, without rate
// limits and failures of its receiver.
type DryRunMessage struct {
	At time.Time
	message.Message
}

// DryRun passes occurrences through the pipeline without sending anything. Its clock
// follows the times of the occurrences, but not beyond now. The alarm must have one
// receiver, beside those of its Route. Its messages have these labels of namespaces. dir is an empty directory for a
// temporary outbox, which the caller deletes.
func DryRun(ctx context.Context, dir string, a *match.Alarm, occurrences []alarm.Occurrence, namespaces match.Namespaces, enricher Enricher, now time.Time, labels ...string) (*DryRunResult, error) {
	clk := &manualClock{}
	store, err := outbox.Open(ctx, dir, outbox.WithClock(clk), outbox.WithComposer(ComposeGroup))
	if err != nil {
		return nil, err
	}
	alarms := NewAlarms()
	alarms.Set("dry-run", "1", a)
	r := &dryRun{
		DryRunResult: &DryRunResult{}, alarm: a, now: now, clock: clk, outbox: store,
		matcher: newMatcher(alarms, namespaces, enricher, clk),
		waiting: map[string][]int{},
	}
	r.matcher.receiver = func(key string) (Receiver, bool) { return Receiver{ID: key, NamespaceLabels: labels}, true }
	occurrences = slices.Clone(occurrences)
	capObservedAt(occurrences, now)
	slices.SortStableFunc(occurrences, func(a, b alarm.Occurrence) int {
		return cmp.Or(a.ObservedAt.Compare(b.ObservedAt), cmp.Compare(a.Position, b.Position))
	})
	store.ReadUpTo(now)
	return r.DryRunResult, errors.Join(r.run(ctx, occurrences), store.Close())
}

// manualClock is a clock that changes only when it is set.
type manualClock struct{ time.Time }

// Now returns the time of the clock.
func (c *manualClock) Now() time.Time { return c.Time }

// Since returns the time since t by this clock.
func (c *manualClock) Since(t time.Time) time.Duration { return c.Sub(t) }

type dryRun struct {
	*DryRunResult
	alarm   *match.Alarm
	now     time.Time
	clock   *manualClock
	outbox  *outbox.Store
	matcher *matcher

	position uint64
	// waiting are the indexes of the Evaluations that are in no message yet: by the key
	// of the group or, without groups, of the entry.
	waiting map[string][]int
}

// maxBatch is the maximum number of occurrences in a batch, like that of the source.
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

// countBeforeDue returns how many occurrences come before the next message of a group is
// due. It considers groups that these occurrences themselves open.
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

// handle is like Pipeline.handle, without receivers.
func (r *dryRun) handle(ctx context.Context, occurrences []alarm.Occurrence) error {
	r.clock.Time = occurrences[0].ObservedAt
	for i := range occurrences {
		r.position = max(r.position, occurrences[i].Position)
	}
	evaluations, skipped, err := r.matcher.match(ctx, occurrences, progress.Offsets{})
	if err != nil {
		return err
	}
	chosen := r.setReceiver(evaluations)
	d, err := r.matcher.decide(ctx, r.outbox, source.Batch{Occurrences: occurrences, Position: r.position}, progress.Offsets{}, r.now, evaluations)
	if err != nil {
		return err
	}
	if err := r.outbox.Commit(ctx, d.change); err != nil {
		return err
	}
	if len(skipped) > 0 {
		r.OverBudget = skipped[0].why
	}
	for i := range d.evaluations {
		for j := range d.evaluations[i] {
			r.record(&occurrences[i], &d.evaluations[i][j], chosen[i])
		}
	}
	return r.drain(ctx)
}

// setReceiver makes all messages go to one receiver. It returns the keys of those that a label
// chooses, for each occurrence.
func (r *dryRun) setReceiver(evaluations [][]evaluation) [][]string {
	chosen := make([][]string, len(evaluations))
	for i := range evaluations {
		for j := range evaluations[i] {
			if e := &evaluations[i][j]; e.route != nil {
				chosen[i] = e.chosenKeys()
				e.recipients, e.route = r.matcher.recipients(r.alarm.Receivers), nil
			}
		}
	}
	return chosen
}

func (r *dryRun) record(occ *alarm.Occurrence, e *evaluation, chosen []string) {
	if e.outcome == match.Matched && e.suppressed == "" {
		key := alarm.Key(r.alarm.Receivers[0], r.alarm.UID, occ)
		if r.alarm.Grouping() != nil {
			key = alarm.GroupKey(r.alarm.UID, e.by...)
		}
		r.waiting[key] = append(r.waiting[key], len(r.Evaluations))
	}
	r.Evaluations = append(r.Evaluations, Evaluation{
		Occurrence: *occ, Outcome: e.outcome, Err: e.err, Suppressed: e.suppressed,
		Chosen: chosen, NoReceiver: e.noReceiver, By: e.by, Lacks: e.lacks, Alone: e.message, Message: -1,
	})
}

// releaseUntil releases the messages of groups that are due until a time, or all of them
// if the time is zero.
func (r *dryRun) releaseUntil(ctx context.Context, until time.Time) error {
	for {
		due, err := r.outbox.NextDue(ctx)
		if err != nil || due.IsZero() || !until.IsZero() && due.After(until) {
			return err
		}
		r.clock.Time = due
		if _, err := r.outbox.Release(ctx); err != nil {
			return err
		}
		if err := r.drain(ctx); err != nil {
			return err
		}
	}
}

// maxPending is more than a batch and the groups of an alarm can make.
const maxPending = 100_000

// drain takes the messages in the outbox as sent.
func (r *dryRun) drain(ctx context.Context) error {
	receiver := r.alarm.Receivers[0]
	entries, err := r.outbox.Pending(ctx, outbox.Query{Receiver: receiver, Lane: outbox.MainLane, Limit: maxPending})
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
	_, err = r.outbox.DropOlderThan(ctx, receiver, outbox.MainLane, r.now.Add(time.Hour))
	return err
}
