package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// handle decides and commits one batch. Nothing is counted or sent before the commit.
func (p *Pipeline) handle(ctx context.Context, b source.Batch) error {
	p.Observe(ctx, b.Occurrences)
	handled := p.Outbox.State().Delivered
	if b.Reset != nil {
		handled = outbox.DeliveredOffsets{} // these positions belong to the history that ended
	}
	d, err := p.matcher.decide(ctx, p.Outbox, b, handled, p.Clock.Now())
	if err != nil {
		return err
	}
	if err := p.commit(ctx, b, d.batch); err != nil {
		return err
	}
	p.report(b.Occurrences, d)
	return nil
}

// batchDecision is what the pipeline will do with a batch of the source. It has no effect
// before it is committed.
type batchDecision struct {
	evaluations [][]evaluation
	// skipped are the Alarms that were skipped for some occurrences, over their budget.
	skipped    []*match.Alarm
	suppressor *suppressor
	entries    *entryBuilder
	// batch is what will be stored.
	batch outbox.Batch
}

// decide evaluates a batch, and decides what is sent and what is stored.
func (m *matcher) decide(ctx context.Context, store *outbox.Store, b source.Batch, handled outbox.DeliveredOffsets, now time.Time) (*batchDecision, error) {
	d := &batchDecision{batch: newOutboxBatch(b), suppressor: newSuppressor(store), entries: newEntryBuilder(handled, store.Waiting)}
	d.batch.Oldest, d.batch.Newest = capObservedAt(b.Occurrences, now)
	var err error
	if d.evaluations, d.skipped, err = m.match(ctx, b.Occurrences, handled); err != nil {
		return nil, err
	}
	if err := d.suppressor.mark(ctx, b.Occurrences, d.evaluations); err != nil {
		return nil, err
	}
	if d.batch.Windows, err = d.suppressor.changed(); err != nil {
		return nil, err
	}
	if err := d.entries.addAll(b.Occurrences, d.evaluations); err != nil {
		return nil, err
	}
	d.batch.Entries = d.entries.entries
	return d, nil
}

// newOutboxBatch returns the part of a batch that the source itself needs to be stored.
func newOutboxBatch(b source.Batch) outbox.Batch {
	batch := outbox.Batch{
		Position: b.Position, Time: b.Time, CountsKnown: b.CountsKnown, Forget: b.Forget,
		Counts: make([]outbox.EventCount, 0, len(b.Counts)), // the first batch counts all Events
	}
	for _, c := range b.Counts {
		batch.Counts = append(batch.Counts, outbox.EventCount(c))
	}
	if b.Reset != nil {
		batch.History = uuid.NewString()
	}
	return batch
}

// commit stores the batch. If a history ended with it, it reports that.
func (p *Pipeline) commit(ctx context.Context, b source.Batch, batch outbox.Batch) error {
	now := p.Clock.Now()
	for i := range batch.Entries {
		batch.Entries[i].CreatedAt = now
	}
	first := p.Outbox.State().Position == 0
	if err := p.Outbox.Commit(ctx, batch); err != nil {
		return err
	}
	if first || b.Reset != nil {
		// Without a position in the checkpoint, a later start would start from now.
		if err := p.writeCheckpoint(ctx); err != nil {
			p.Log.Error(err, "the checkpoint could not be written: retrying")
		}
	}
	if b.Reset != nil {
		p.Reporter.Reset(ctx, b.Reset.Reason)
	}
	return nil
}

// report reports a batch after its commit, and wakes the receivers.
func (p *Pipeline) report(occurrences []alarm.Occurrence, d *batchDecision) {
	for i := range d.evaluations {
		for _, e := range d.evaluations[i] {
			if e.replayed {
				continue
			}
			p.Reporter.Evaluated(e.alarm.ID, e.outcome, e.err, occurrences[i].Increase)
			if e.suppressed != "" {
				p.Reporter.Suppressed(e.alarm.ID, e.suppressed, occurrences[i].Increase)
			}
		}
	}
	for receiver, alarms := range d.entries.overflow {
		p.Reporter.Dropped(receiver, alarms, notify.DropOverflow,
			fmt.Sprintf("%d messages already wait for this receiver: new ones are dropped until some are delivered", maxBacklog))
	}
	select {
	case p.groupAdded <- struct{}{}:
	default: // already notified
	}
	for receiver, occurrences := range d.entries.queued {
		p.Reporter.Queued(receiver, occurrences)
		p.Dispatcher.Wake(receiver)
	}
	for id := range d.suppressor.groups.limited {
		p.Reporter.GroupLimitReached(id)
	}
	for _, a := range d.skipped {
		p.Reporter.Evaluated(a.ID, match.Failed, match.ErrOverBudget, 0)
	}
}

// maxBacklog is the number of messages that can wait for one receiver. Further ones are
// dropped and reported. A receiver that fails for a day must not fill the disk, because
// that would stop all alarms.
const maxBacklog = 100_000

// entryBuilder builds the outbox entries of a batch.
type entryBuilder struct {
	handled outbox.DeliveredOffsets
	// backlog returns how many messages wait for a receiver.
	backlog func(receiver string) int64

	entries []outbox.Entry
	// queued counts the occurrences for each receiver. overflow counts those that the
	// backlog limit excludes, for each receiver and alarm.
	queued   map[string]int64
	overflow map[string]outbox.Counts
	// added is the number of new entries for each receiver.
	added map[string]int64
}

func newEntryBuilder(handled outbox.DeliveredOffsets, backlog func(receiver string) int64) *entryBuilder {
	return &entryBuilder{
		handled: handled, backlog: backlog,
		queued: map[string]int64{}, overflow: map[string]outbox.Counts{}, added: map[string]int64{},
	}
}

// addAll adds the entries for all evaluations of a batch.
func (b *entryBuilder) addAll(occurrences []alarm.Occurrence, evaluations [][]evaluation) error {
	for i := range occurrences {
		for j := range evaluations[i] {
			if err := b.add(&occurrences[i], &evaluations[i][j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds an entry for each receiver, if the occurrence matched and is not suppressed. It
// skips receivers for which the occurrence was handled before. Such an occurrence still
// belongs to its group, so that group gets an entry that is marked as served.
func (b *entryBuilder) add(occ *alarm.Occurrence, e *evaluation) error {
	if e.outcome != match.Matched || e.suppressed != "" {
		return nil
	}
	payload, err := json.Marshal(e.message)
	if err != nil {
		return fmt.Errorf("encode message of %s: %w", e.alarm.ID.Name, err)
	}
	alarmKey := kube.Key(e.alarm.ID).String()
	for _, receiver := range e.alarm.Receivers {
		key := alarm.Key(receiver, e.alarm.UID, occ)
		member, err := b.membership(occ, e)
		if err != nil {
			return err
		}
		switch handled := b.handled.Covers(receiver, key, occ.Position); {
		case handled && member == nil:
		case handled:
			member.StateOnly = true
			b.entries = append(b.entries, outbox.Entry{
				Receiver: receiver, Alarm: alarmKey, Key: key, Position: occ.Position, Count: occ.Increase, Member: member,
			})
		case b.backlog(receiver)+b.added[receiver] >= maxBacklog:
			if b.overflow[receiver] == nil {
				b.overflow[receiver] = outbox.Counts{}
			}
			b.overflow[receiver][alarmKey] += occ.Increase
		default:
			b.added[receiver]++
			b.queued[receiver] += occ.Increase
			b.entries = append(b.entries, outbox.Entry{
				Receiver: receiver, Alarm: alarmKey, Key: key,
				Position: occ.Position, Count: occ.Increase, Payload: payload, Member: member,
			})
		}
	}
	return nil
}

// membership returns the group to which the occurrence belongs, or nil if the alarm has no
// groups.
func (b *entryBuilder) membership(occ *alarm.Occurrence, e *evaluation) (*outbox.Membership, error) {
	g := e.alarm.Grouping()
	if g == nil {
		return nil, nil
	}
	by, err := json.Marshal(e.by)
	if err != nil {
		return nil, fmt.Errorf("encode a group of %s: %w", e.alarm.ID.Name, err)
	}
	return &outbox.Membership{
		Group: alarm.GroupKey(e.alarm.UID, e.by...), By: by, At: occ.ObservedAt.Truncate(time.Second),
		Wait: g.Wait, Interval: g.Interval,
		// The group beyond the limit is not about one object, so it cannot be resolved.
		Resolves: len(e.by) > 0 && g.Resolves(&occ.Event),
	}, nil
}
