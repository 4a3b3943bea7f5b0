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
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// finalWriteTimeout limits the last write of the checkpoint, when the process ends.
const finalWriteTimeout = 2 * time.Second

// Source yields occurrences.
type Source interface {
	Run(ctx context.Context, start source.Start, handle source.Handler) error
}

// Dispatcher sends the messages in the outbox.
type Dispatcher interface {
	Run(ctx context.Context) error
	Wake(receivers ...string)
}

// CheckpointStore stores the progress of delivery in the cluster. Write returns
// checkpoint.ErrDeposed if another process wrote after the last Read or Write.
type CheckpointStore interface {
	Read(ctx context.Context) (last checkpoint.Checkpoint, found bool, err error)
	Write(ctx context.Context, next checkpoint.Checkpoint) error
}

// Reporter records what users must know.
type Reporter interface {
	// Evaluated: an alarm was evaluated for occurrences; err is the failure of an
	// expression, if any.
	Evaluated(id alarm.ID, outcome match.Outcome, err error, occurrences int64)
	// Suppressed: occurrences matched, but are not sent.
	Suppressed(id alarm.ID, why Suppression, occurrences int64)
	// Merged: this many messages were saved, because other messages of their groups
	// contain their occurrences.
	Merged(messages int64)
	// GroupLimitReached: the alarm has too many open groups, and some are merged.
	GroupLimitReached(id alarm.ID)
	// Queued: occurrences were put into the outbox for a receiver.
	Queued(receiver string, occurrences int64)
	// Dropped: occurrences of these alarms were dropped.
	Dropped(receiver string, alarms outbox.Counts, cause notify.DropCause, text string)
	// Reset: the stored position does not belong to this cluster's history.
	Reset(ctx context.Context, text string)
}

// Config configures a Pipeline. All fields are required.
type Config struct {
	// ClusterUID identifies the cluster.
	ClusterUID string
	Source     Source
	Outbox     *outbox.Store
	Checkpoint CheckpointStore
	Dispatcher Dispatcher
	Alarms     *Alarms
	Namespaces match.Namespaces
	Enricher   Enricher
	Reporter   Reporter
	// Observe gets all occurrences before they are matched. It can get the same ones
	// twice.
	Observe func(ctx context.Context, occurrences []alarm.Occurrence)
	// LoadAlarms adds the existing alarms to Alarms. It is called before the first Event
	// is read, so that a restart misses none.
	LoadAlarms func(ctx context.Context) error
	Clock      clock.WithTicker
	Log        logr.Logger
}

// Pipeline leads Events to the receivers. Only one runs in a cluster at a time: that of
// the leader.
type Pipeline struct {
	Config
	matcher matcher

	// groupAdded receives a value after occurrences were added to a group.
	groupAdded chan struct{}

	epoch          string
	checkpointMu   sync.Mutex
	lastCheckpoint checkpoint.Checkpoint
}

// New returns a Pipeline.
func New(c Config) *Pipeline {
	return &Pipeline{
		Config:     c,
		matcher:    matcher{alarms: c.Alarms, namespaces: c.Namespaces, enricher: c.Enricher, budget: newBudget(c.Clock)},
		groupAdded: make(chan struct{}, 1),
	}
}

// Start takes over from the last leader and runs until ctx ends. It is a
// manager.Runnable and needs leader election.
func (p *Pipeline) Start(ctx context.Context) error {
	if err := p.LoadAlarms(ctx); err != nil {
		return fmt.Errorf("load the alarms: %w", err)
	}
	start, err := p.takeOver(ctx)
	if err != nil {
		return err
	}
	err = p.run(ctx, start)

	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalWriteTimeout)
	defer cancel()
	return errors.Join(err, p.writeCheckpoint(final))
}

// run ends when the first part fails. A damaged outbox also ends it, because only opening
// it again repairs it: the damaged file is then set aside.
func (p *Pipeline) run(ctx context.Context, start source.Start) error {
	group, ctx := errgroup.WithContext(ctx)
	damaged := make(chan error, 1)
	group.Go(func() error { return p.Dispatcher.Run(ctx) })
	group.Go(func() error { return p.Source.Run(ctx, start, reportingDamage(p.handle, damaged)) })
	group.Go(func() error { return p.keepCheckpoint(ctx) })
	group.Go(func() error { return p.releaseGroups(ctx) })
	group.Go(func() error {
		select {
		case err := <-damaged:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// reportingDamage sends the first error about a damaged outbox to damaged. The source only
// retries such errors.
func reportingDamage(handle source.Handler, damaged chan<- error) source.Handler {
	return func(ctx context.Context, b source.Batch) error {
		err := handle(ctx, b)
		if errors.Is(err, outbox.ErrCorrupt) {
			select {
			case damaged <- err:
			default:
			}
		}
		return err
	}
}
