package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// commit stores the batch, and tells of a history that ended with it.
func (p *Pipeline) commit(ctx context.Context, b source.Batch, batch outbox.Batch) error {
	now := p.clock.Now()
	for i := range batch.Entries {
		batch.Entries[i].CreatedAt = now
	}
	first := p.ledger.State().Position == 0
	if err := p.ledger.Commit(ctx, batch); err != nil {
		return err
	}
	if first || b.Reset != nil {
		// A later start must not take this position for one that was never set.
		if err := p.writeCheckpoint(ctx); err != nil {
			p.log.Error(err, "the mirror could not be written; retrying")
		}
	}
	if b.Reset != nil {
		p.Reporter.Reset(ctx, b.Reset.Reason)
	}
	return nil
}

// report tells what became of a batch that is committed, and wakes the receivers.
func (p *Pipeline) report(occurrences []alarm.Occurrence, verdicts [][]evaluation, in *entryBuilder) {
	for i := range verdicts {
		for _, v := range verdicts[i] {
			if v.replayed {
				continue
			}
			p.Reporter.Evaluated(v.alarm.ID, v.outcome, v.err, occurrences[i].Increase)
			if v.suppressed != "" {
				p.Reporter.Suppressed(v.alarm.ID, v.suppressed, occurrences[i].Increase)
			}
		}
	}
	for receiver, alarms := range in.overflow {
		p.Reporter.Dropped(receiver, alarms, notify.DropOverflow,
			fmt.Sprintf("%d messages wait for this receiver already; no more are taken until some are delivered", maxBacklog))
	}
	select {
	case p.groupAdded <- struct{}{}:
	default: // it looks already
	}
	for receiver, occurrences := range in.queued {
		p.Reporter.Queued(receiver, occurrences)
		p.Dispatcher.Wake(receiver)
	}
}

// counts reads the ledger's counts for the feed.
func (p *Pipeline) eventCounts(ctx context.Context) iter.Seq2[source.Count, error] {
	return func(yield func(source.Count, error) bool) {
		errStop := errors.New("stop")
		err := p.ledger.EachCount(ctx, func(c outbox.EventCount) error {
			if !yield(source.Count(c), nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(source.Count{}, err)
		}
	}
}
