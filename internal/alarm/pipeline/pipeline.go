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

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// finalWriteTimeout limits the last write of the checkpoint, when the process ends.
const finalWriteTimeout = 2 * time.Second

// Source yields occurrences.
type Source interface {
	Position(ctx context.Context) (uint64, error)
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
	// expression, if any. The outbox has the counts for the status. If the outcome is
	// Undecided, err says what could not be read, and the occurrences are given up; if they
	// are 0, some still wait.
	Evaluated(id kube.Key, outcome match.Outcome, err error, occurrences int64)
	// Suppressed: occurrences matched, but are not sent.
	Suppressed(why Suppression, occurrences int64)
	// Merged: this many messages were saved, because other messages of their groups
	// contain their occurrences.
	Merged(messages int64)
	// GroupLimitReached: the alarm has too many open groups, and some are merged.
	GroupLimitReached(id kube.Key)
	// Dropped: occurrences of these alarms were dropped.
	Dropped(receiver string, alarms outbox.Counts, cause notify.DropCause, text string)
	// Reset: the stored position does not belong to this cluster's history.
	Reset(ctx context.Context, text string)
}

// Config configures a Pipeline. All fields are required but those that say otherwise.
type Config struct {
	// ClusterUID identifies the cluster.
	ClusterUID string
	Source     Source
	// Changes is the source of changes. Optional: without it, spec.changes and spec.states have
	// no effect.
	Changes    Changes
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
	// MaxAge is how long an occurrence waits for an object that cannot be read.
	MaxAge time.Duration
	// Identify returns the ID of the receiver with a key, or "" if there is none. Occurrences
	// before since are not sent to it. Optional: a receiver then has its key as ID.
	Identify func(key string) (id string, since time.Time)
	// Repeats reports whether the receiver with an ID must get the messages of open groups
	// again. Optional: none must.
	Repeats func(id string) bool
	// Acknowledges reports whether the receiver with an ID shows who acknowledged a group.
	// Optional: none does.
	Acknowledges func(id string) bool
	// NamespaceLabels returns the keys of the labels of namespaces by which the receiver with an
	// ID chooses a channel. Optional: none does.
	NamespaceLabels func(id string) []string
	Clock           clock.WithTicker
	Log             logr.Logger
}

// Pipeline leads Events to the receivers. Only one runs in a cluster at a time: that of
// the leader.
type Pipeline struct {
	Config
	matcher *matcher

	// unreadLimiter limits how often parked occurrences are tried without success.
	unreadLimiter *rate.Limiter

	// groupAdded receives a value after occurrences were added to a group.
	groupAdded chan struct{}

	// states is what spec.states needs. started is when this term began.
	states  *sweeps
	started time.Time

	epoch string
	// writing is full while the checkpoint is written. A write can take long, and others that wait
	// for it must not outlive their context.
	writing        chan struct{}
	lastCheckpoint checkpoint.Checkpoint
}

// New returns a Pipeline.
func New(c Config) *Pipeline {
	p := &Pipeline{
		Config:     c,
		matcher:    newMatcher(c.Alarms, c.Namespaces, c.Enricher, c.Clock),
		groupAdded: make(chan struct{}, 1), writing: make(chan struct{}, 1), states: newSweeps(), unreadLimiter: rate.NewLimiter(unreadPerSecond, unreadPerSecond),
	}
	if c.Identify != nil {
		p.matcher.identify = c.Identify
	}
	p.matcher.repeats, p.matcher.namespaceLabels = c.Repeats, c.NamespaceLabels
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
