package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// finalFlush bounds the last write of the mirror, when the process is ending.
const finalWriteTimeout = 2 * time.Second

// Feed is the stream of occurrences.
type Source interface {
	Run(ctx context.Context, start source.Start, handle source.Handler) error
}

// Dispatcher sends what is in the outbox.
type Dispatcher interface {
	Run(ctx context.Context) error
	Wake(receivers ...string)
}

// Mirror is where the cluster keeps how far delivery has come. Write returns
// mirror.ErrDeposed if another process wrote since it was last read or written.
type CheckpointStore interface {
	Read(ctx context.Context) (m checkpoint.Checkpoint, found bool, err error)
	Write(ctx context.Context, m checkpoint.Checkpoint) error
}

// Reporter is told what users must hear of.
type Reporter interface {
	// Evaluated: what became of an alarm and an occurrence; err is the failure of an
	// expression, if any.
	Evaluated(id alarm.ID, outcome match.Outcome, err error, occurrences int64)
	// Suppressed: occurrences that matched are not sent.
	Suppressed(id alarm.ID, why Suppression, occurrences int64)
	// Merged: so many messages were not made, for what they would have told is in
	// another of their group.
	Merged(messages int64)
	// Folded: the alarm has more groups open than are kept apart.
	GroupLimitReached(id alarm.ID)
	// Queued: occurrences were put into the outbox for a receiver.
	Queued(receiver string, occurrences int64)
	// Dropped: there was no room for occurrences in the outbox, by alarm.
	Dropped(receiver string, alarms outbox.Counts, cause notify.DropCause, text string)
	// Reset: positions were found not to be of this cluster's history.
	Reset(ctx context.Context, text string)
}

// Config is what a Pipeline is made of; all of it is required.
type Config struct {
	// ClusterUID names the cluster.
	ClusterUID string
	Source     Source
	Outbox     *outbox.Store
	Checkpoint CheckpointStore
	Dispatcher Dispatcher
	Alarms     *Alarms
	Namespaces match.Namespaces
	Enricher   Enricher
	Reporter   Reporter
	// Hear is told what happened, before anything is decided about it. The same may be
	// told twice.
	Observe func(ctx context.Context, occurrences []alarm.Occurrence)
	// Prime puts the alarms that exist in force: it is called before the first
	// Event is consumed, so that a restart misses none.
	LoadAlarms func(ctx context.Context) error
	Clock      clock.WithTicker
	Log        logr.Logger
}

// Pipeline is the way of an Event to the outbox and from there to the receivers.
// One runs in a cluster at a time: the leader's.
type Pipeline struct {
	Config
	clock   clock.WithTicker
	log     logr.Logger
	ledger  *outbox.Store
	mirror  CheckpointStore
	matcher matcher

	// held is told that something was put into a group.
	groupAdded chan struct{}

	epoch          string
	checkpointMu   sync.Mutex
	lastCheckpoint checkpoint.Checkpoint
}

// New returns a Pipeline.
func New(c Config) *Pipeline {
	return &Pipeline{
		groupAdded: make(chan struct{}, 1),
		Config:     c, clock: c.Clock, log: c.Log, ledger: c.Outbox, mirror: c.Checkpoint,
		matcher: matcher{alarms: c.Alarms, namespaces: c.Namespaces, enricher: c.Enricher, budget: newBudget(c.Clock)},
	}
}

// Start takes over and runs until ctx ends. It is a manager.Runnable; it needs
// leader election.
func (p *Pipeline) Start(ctx context.Context) error {
	if err := p.LoadAlarms(ctx); err != nil {
		return fmt.Errorf("put the alarms in force: %w", err)
	}
	start, err := p.takeOver(ctx)
	if err != nil {
		return err
	}
	err = p.run(ctx, start)

	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalWriteTimeout)
	defer cancel()
	return errors.Join(err, p.writeCheckpoint(flush))
}

// run ends with the first part that fails. A damaged ledger is such a failure:
// nothing but opening it anew, which sets it aside, helps.
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

// notingDamage tells of a ledger that turned out to be damaged, once.
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

// takeOver brings ledger and mirror to where this term begins. Each step may be
// the last one before a crash: the next start then decides the same again.
func (p *Pipeline) takeOver(ctx context.Context) (source.Start, error) {
	last, found, err := p.mirror.Read(ctx)
	if err != nil {
		return source.Start{}, err
	}
	plan := planTakeover(p.ClusterUID, p.ledger.State(), last, found, p.Alarms.Window())
	if last.ClusterUID == p.ClusterUID {
		p.lastCheckpoint = checkpoint.Checkpoint{History: last.History, Trail: last.Trail}
	}
	if err := p.prepareOutbox(ctx, plan); err != nil {
		return source.Start{}, fmt.Errorf("prepare the ledger: %w", err)
	}
	if err := p.beginTerm(ctx); err != nil {
		return source.Start{}, err
	}
	if plan.reset != "" {
		p.Reporter.Reset(ctx, plan.reset)
	}
	state := p.ledger.State()
	p.log.Info("delivery taken over", "position", state.Position, "trustedLedger", plan.trusted)
	return source.Start{
		Position: state.Position, Time: state.Time,
		Counts: p.eventCounts(ctx), CountsKnown: state.Counted,
	}, nil
}

func (p *Pipeline) prepareOutbox(ctx context.Context, plan takeoverPlan) error {
	if plan.trusted {
		return nil
	}
	if p.ledger.State().ClusterUID != p.ClusterUID {
		if err := p.ledger.Reset(ctx, p.ClusterUID, 0); err != nil {
			return err
		}
	}
	if _, err := p.ledger.DropAtOrBelow(ctx, plan.delivered.Default, plan.delivered.Receivers); err != nil {
		return err
	}
	if err := p.ledger.DropHeld(ctx, plan.delivered); err != nil {
		return err
	}
	return p.ledger.Replay(ctx, plan.history, plan.position, plan.handled)
}

// beginTerm publishes a token that ties the mirror to this ledger. The ledger
// knows it first: see ownsTerm.
func (p *Pipeline) beginTerm(ctx context.Context) error {
	p.epoch = uuid.NewString()
	if err := p.ledger.Claim(ctx, p.epoch); err != nil {
		return fmt.Errorf("claim the ledger: %w", err)
	}
	if err := p.writeCheckpoint(ctx); err != nil {
		return err
	}
	return p.ledger.Confirm(ctx)
}

// handle commits one batch. Nothing is counted or sent before that.
func (p *Pipeline) handle(ctx context.Context, b source.Batch) error {
	p.Observe(ctx, b.Occurrences)
	floors := p.ledger.State().Floors
	if b.Reset != nil {
		floors = outbox.Floors{} // they are of the history that ended
	}
	j, err := p.matcher.decide(ctx, p.ledger, b, floors, p.clock.Now())
	if err != nil {
		return err
	}
	if err := p.commit(ctx, b, j.batch); err != nil {
		return err
	}
	p.report(b.Occurrences, j.evaluations, j.entries)
	for id := range j.suppressor.groups.limited {
		p.Reporter.GroupLimitReached(id)
	}
	for _, a := range j.skipped {
		p.Reporter.Evaluated(a.ID, match.Failed, match.ErrOverBudget, 0)
	}
	return nil
}

// judgement is what is made of a batch of the feed. It changes nothing yet.
type batchDecision struct {
	evaluations [][]evaluation
	skipped     []*match.Alarm
	suppressor  *suppressor
	entries     *entryBuilder
	// batch is what is to be stored.
	batch outbox.Batch
}

// judgeBatch decides what is sent of a batch, and what is to be remembered of it.
func (m *matcher) decide(ctx context.Context, l *outbox.Store, b source.Batch, floors outbox.Floors, now time.Time) (*batchDecision, error) {
	j := &batchDecision{batch: newOutboxBatch(b), suppressor: newSuppressor(l), entries: newEntryBuilder(floors, l.Waiting)}
	j.batch.Oldest, j.batch.Newest = capObservedAt(b.Occurrences, now)
	var err error
	if j.evaluations, j.skipped, err = m.match(ctx, b.Occurrences, floors); err != nil {
		return nil, err
	}
	if j.batch.Windows, err = markSuppressed(ctx, j.suppressor, b.Occurrences, j.evaluations); err != nil {
		return nil, err
	}
	if err := j.entries.addAll(b.Occurrences, j.evaluations); err != nil {
		return nil, err
	}
	j.batch.Entries = j.entries.entries
	return j, nil
}

// batchOf is what the feed wants to have stored.
func newOutboxBatch(b source.Batch) outbox.Batch {
	batch := outbox.Batch{
		Position: b.Position, Time: b.Time, Counted: b.CountsKnown, Forget: b.Forget,
		Counts: make([]outbox.EventCount, 0, len(b.Counts)), // at first as many as there are Events
	}
	for _, c := range b.Counts {
		batch.Counts = append(batch.Counts, outbox.EventCount(c))
	}
	if b.Reset != nil {
		batch.History = uuid.NewString()
	}
	return batch
}

// suppress marks what matched and is not sent, and returns what is to be remembered.
func markSuppressed(ctx context.Context, g *suppressor, occurrences []alarm.Occurrence, verdicts [][]evaluation) ([]outbox.Window, error) {
	for i := range verdicts {
		for j := range verdicts[i] {
			v := &verdicts[i][j]
			if v.outcome != match.Matched {
				continue
			}
			var err error
			if v.suppressed, err = g.check(ctx, &occurrences[i], v); err != nil {
				return nil, err
			}
		}
	}
	return g.changed()
}
