// Package pipeline connects the parts that lead from an Event to the receivers. It
// decides where a new leader continues, and matches the occurrences that the source
// yields. It stores their messages in the outbox, together with the position of the
// source. It also writes the progress of delivery into the checkpoint in the cluster.
//
// The parts themselves are in other packages: source, match, enrich, outbox, checkpoint
// and notify.
package pipeline

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// finalWriteTimeout limits the last write of the checkpoint, when the process ends.
const finalWriteTimeout = 2 * time.Second

// New returns a Pipeline.
func New(c Config) *Pipeline {
	p := &Pipeline{
		Config:     c,
		matcher:    newMatcher(c.Alarms, c.Namespaces, c.Enricher, c.Clock),
		groupAdded: make(chan struct{}, 1), writing: make(chan struct{}, 1), states: newSweeps(), unreadLimiter: rate.NewLimiter(unreadPerSecond, unreadPerSecond),
	}
	if c.Receiver != nil {
		p.matcher.receiver = c.Receiver
	}
	return p
}

// Start takes over from the last leader and runs until ctx ends. It is a
// manager.Runnable and needs leader election.
func (p *Pipeline) Start(ctx context.Context) error {
	p.started = p.Clock.Now()
	start, err := p.repeatTakeOver(ctx)
	if err != nil {
		return err
	}
	p.acknowledgeOnce(ctx) // before messages of acknowledged groups are released
	err = p.run(ctx, start)

	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalWriteTimeout)
	defer cancel()
	return errors.Join(err, p.writeCheckpoint(final))
}

// run ends when the first part fails. A damaged outbox also ends it, because only opening
// it again repairs it: the damaged file is then set aside.
func (p *Pipeline) run(ctx context.Context, start source.Start) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Dispatcher.Run(ctx) })
	group.Go(func() error { return p.Source.Run(ctx, start, p.handle) })
	if p.Changes != nil {
		group.Go(func() error { return p.Changes.Run(ctx, p.handleChanges) })
		group.Go(func() error { return p.followNeeds(ctx) })
		group.Go(func() error { return p.followStates(ctx) })
	}
	group.Go(func() error { return p.keepCheckpoint(ctx) })
	group.Go(func() error { return p.releaseGroups(ctx) })
	group.Go(func() error { return p.followAcknowledgements(ctx) })
	group.Go(func() error { return p.retryParked(ctx) })
	group.Go(func() error {
		select {
		case err := <-p.Outbox.Damaged():
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}
