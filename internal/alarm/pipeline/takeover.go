package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// takeOverFor is how long a takeover that fails is repeated. When the operator ends, the kubelet can wait
// for five minutes before it starts again.
const takeOverFor = 2 * time.Minute

// repeatTakeOver loads the alarms and takes over. It tries again if the API server does not answer, or the
// disk is full.
func (p *Pipeline) repeatTakeOver(ctx context.Context) (start source.Start, err error) {
	until := p.Clock.Now().Add(takeOverFor)
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Cap: 10 * time.Second, Steps: math.MaxInt32}
	for {
		if err = p.LoadAlarms(ctx); err != nil {
			err = fmt.Errorf("load the alarms: %w", err)
		} else {
			start, err = p.takeOver(ctx)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, checkpoint.ErrDeposed) {
			return start, err
		}
		pause := backoff.Step()
		if p.Clock.Now().After(until) {
			return start, err
		}
		p.Log.Error(err, "The takeover failed and is repeated", "after", pause.String())
		timer := p.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case damaged := <-p.Outbox.Damaged():
			return start, errors.Join(err, damaged)
		case <-ctx.Done():
			return start, err
		}
	}
}

// takeOver prepares the outbox and the checkpoint for the new term, and returns where the
// source starts. If the process crashes after any of its steps, the next start decides the
// same.
func (p *Pipeline) takeOver(ctx context.Context) (source.Start, error) {
	last, found, err := p.Checkpoint.Read(ctx)
	damaged := errors.Is(err, checkpoint.ErrDamaged)
	if err != nil && !damaged {
		return source.Start{}, err
	}
	plan := planTakeover(p.ClusterUID, p.Outbox.State(), last, found, p.Alarms.Window())
	if damaged && !plan.trusted {
		plan.reset = damagedReason
	}
	p.lastCheckpoint = checkpoint.Checkpoint{History: plan.history}
	if last.ClusterUID == p.ClusterUID {
		p.lastCheckpoint = checkpoint.Checkpoint{History: last.History, Time: last.Time, PositionHistory: last.PositionHistory}
	}
	if err := p.prepareOutbox(ctx, plan); err != nil {
		return source.Start{}, fmt.Errorf("prepare the outbox: %w", err)
	}
	if err := p.beginNow(ctx); err != nil {
		return source.Start{}, err
	}
	if err := p.beginTerm(ctx); err != nil {
		return source.Start{}, err
	}
	if plan.reset != "" {
		p.Reporter.Reset(ctx, plan.reset)
	}
	state := p.Outbox.State()
	p.Log.Info("delivery taken over", "position", state.Position, "trustedOutbox", plan.trusted)
	start := startOf(state, last)
	start.Counts = p.Outbox.EventCounts(ctx)
	return start, nil
}

// startOf returns where the source starts, without the counts. A replay ends where the
// last leader stopped.
func startOf(state outbox.State, last checkpoint.Checkpoint) source.Start {
	start := source.Start{Position: state.Position, Time: state.Time, CountsKnown: state.CountsKnown}
	if last.ClusterUID != state.ClusterUID || last.History != state.History {
		return start
	}
	if start.Time.IsZero() {
		start.Time = last.TimeOf(state.Position)
	}
	if until := state.Delivered.Position; until > state.Position {
		start.Until, start.UntilTime = until, last.TimeOf(until)
		start.Needed = state.Delivered.Needed()
	}
	return start
}

func (p *Pipeline) prepareOutbox(ctx context.Context, plan takeoverPlan) error {
	if plan.trusted {
		return nil
	}
	if p.Outbox.State().ClusterUID != p.ClusterUID {
		if err := p.Outbox.Reset(ctx, p.ClusterUID, 0); err != nil {
			return err
		}
	}
	replay := outbox.Replay{History: plan.history, Position: plan.position, Handled: plan.handled}
	replay.Delivered = map[string]progress.Offsets{"": plan.delivered}
	if err := p.addStreamsTo(ctx, &replay, plan.streams); err != nil {
		return fmt.Errorf("prepare the streams of changes: %w", err)
	}
	return p.Outbox.Replay(ctx, replay)
}

// beginNow stores the newest position if there is none. Otherwise, "from now" would be later after a
// crash.
func (p *Pipeline) beginNow(ctx context.Context) error {
	if p.Outbox.State().Position != 0 {
		return nil
	}
	now := p.Clock.Now()
	position, err := p.Source.Position(ctx)
	if err != nil {
		return fmt.Errorf("read the newest position: %w", err)
	}
	return p.Outbox.Commit(ctx, outbox.Change{Events: &outbox.EventStep{Position: position, Time: now.Add(-source.ClockDifference)}})
}

// beginTerm writes a token that connects the checkpoint with this outbox. The outbox gets it first:
// see ownsTerm. A token that was claimed is used again: the checkpoint can contain it, although the
// write failed.
func (p *Pipeline) beginTerm(ctx context.Context) error {
	p.epoch = cmp.Or(p.Outbox.State().NextEpoch, uuid.NewString())
	if err := p.Outbox.Claim(ctx, p.epoch); err != nil {
		return fmt.Errorf("claim the outbox: %w", err)
	}
	if err := p.writeCheckpoint(ctx); err != nil {
		return err
	}
	return p.Outbox.Confirm(ctx)
}

// resetReason is reported if the stored position belongs to another cluster.
const resetReason = "the stored position belongs to another cluster: alarms continue from now"

// damagedReason is reported if the checkpoint is damaged and this replica has no position.
const damagedReason = "the checkpoint cannot be decoded: alarms continue from now"

// takeoverPlan is what a new leader does with its outbox and the checkpoint.
type takeoverPlan struct {
	// trusted: the outbox belongs to the last leader. It is used unchanged, and nothing is
	// replayed.
	trusted bool
	// reset says why the stored positions cannot be used, or is empty. The outbox is emptied
	// and the source starts from now.
	reset string
	// delivered are the positions up to which the last leader delivered, for each receiver.
	// Pending messages at or below them are dropped.
	delivered progress.Offsets
	// handled is like delivered. If this outbox has consumed the source further, that
	// position is used. Occurrences at or below are not stored again.
	handled progress.Offsets
	// position is where the source starts, in this history; 0 means from now.
	position uint64
	history  string
	// streams is the progress of changes.
	streams map[string]checkpoint.Stream
}

// planTakeover decides what a new leader does. found is true if there is a checkpoint.
// window is the longest window of all alarms.
func planTakeover(clusterUID string, state outbox.State, last checkpoint.Checkpoint, found bool, window time.Duration) takeoverPlan {
	foreignCheckpoint := found && last.ClusterUID != clusterUID
	foreignOutbox := state.ClusterUID != "" && state.ClusterUID != clusterUID
	useCheckpoint := found && !foreignCheckpoint
	useOutbox := state.ClusterUID == clusterUID

	switch {
	case useOutbox && (!useCheckpoint || ownsTerm(state, last) && !isRestored(state, last)):
		return takeoverPlan{trusted: true, history: state.History, position: state.Position}
	case useCheckpoint && useOutbox && state.History == last.History:
		return planReplay(last, state, window)
	case useCheckpoint:
		return planReplay(last, outbox.State{}, window)
	case foreignCheckpoint || foreignOutbox:
		return takeoverPlan{reset: resetReason}
	default:
		return takeoverPlan{} // the first start in this cluster
	}
}

// ownsTerm reports whether this outbox had the last term of leadership. A token that was
// claimed but not confirmed counts, because the crash happened between the two.
func ownsTerm(state outbox.State, last checkpoint.Checkpoint) bool {
	return last.Epoch != "" && (last.Epoch == state.Epoch || last.Epoch == state.NextEpoch)
}

// isRestored reports whether this outbox is an older copy of that of the last leader, for example a
// snapshot of the disk. Otherwise the checkpoint is never ahead of it.
func isRestored(state outbox.State, last checkpoint.Checkpoint) bool {
	return state.History == last.History && last.Position > max(state.Position, state.Delivered.Position)
}

// planReplay plans a replay from the lowest position of a receiver. It starts earlier by
// the longest window, so that thresholds have their state when the first message is sent.
// Occurrences that this outbox has consumed are either sent or pending, and not stored
// again.
func planReplay(last checkpoint.Checkpoint, state outbox.State, window time.Duration) takeoverPlan {
	plan := takeoverPlan{
		history: last.History, delivered: last.Offsets, streams: last.Streams,
		handled: last.With(state.Position, state.Delivered),
	}
	plan.delivered.Reset = last.History != ""
	plan.position = last.Before(plan.handled.Needed(), window)
	if last.Position > 0 {
		// After a restore of etcd, a receiver can have nothing at all. Position 0 would mean
		// from now.
		plan.position = max(plan.position, 1)
	}
	return plan
}
