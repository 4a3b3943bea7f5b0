package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
)

// takeOver prepares the outbox and the checkpoint for the new term, and returns where the
// source starts. If the process crashes after any of its steps, the next start decides the
// same.
func (p *Pipeline) takeOver(ctx context.Context) (source.Start, error) {
	last, found, err := p.Checkpoint.Read(ctx)
	if err != nil {
		return source.Start{}, err
	}
	plan := planTakeover(p.ClusterUID, p.Outbox.State(), last, found, p.Alarms.Window())
	if last.ClusterUID == p.ClusterUID {
		p.lastCheckpoint = checkpoint.Checkpoint{History: last.History, PositionHistory: last.PositionHistory}
	}
	if err := p.prepareOutbox(ctx, plan); err != nil {
		return source.Start{}, fmt.Errorf("prepare the outbox: %w", err)
	}
	if err := p.beginTerm(ctx); err != nil {
		return source.Start{}, err
	}
	if plan.reset != "" {
		p.Reporter.Reset(ctx, plan.reset)
	}
	state := p.Outbox.State()
	p.Log.Info("delivery taken over", "position", state.Position, "trustedOutbox", plan.trusted)
	return source.Start{
		Position: state.Position, Time: state.Time,
		Counts: p.eventCounts(ctx), CountsKnown: state.CountsKnown,
	}, nil
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
	if _, err := p.Outbox.DropAtOrBelow(ctx, plan.delivered.Default, plan.delivered.Receivers); err != nil {
		return err
	}
	if err := p.Outbox.DropHeld(ctx, plan.delivered); err != nil {
		return err
	}
	return p.Outbox.Replay(ctx, plan.history, plan.position, plan.handled)
}

// beginTerm writes a new token that connects the checkpoint with this outbox. The outbox
// gets it first: see ownsTerm.
func (p *Pipeline) beginTerm(ctx context.Context) error {
	p.epoch = uuid.NewString()
	if err := p.Outbox.Claim(ctx, p.epoch); err != nil {
		return fmt.Errorf("claim the outbox: %w", err)
	}
	if err := p.writeCheckpoint(ctx); err != nil {
		return err
	}
	return p.Outbox.Confirm(ctx)
}

// eventCounts reads the stored counts of Events, for the source.
func (p *Pipeline) eventCounts(ctx context.Context) iter.Seq2[source.Count, error] {
	return func(yield func(source.Count, error) bool) {
		errStop := errors.New("stop")
		err := p.Outbox.EachCount(ctx, func(c outbox.EventCount) error {
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

// resetReason is reported if the stored position belongs to another cluster.
const resetReason = "the stored position belongs to another cluster: alarms continue from now"

// takeoverPlan is what a new leader does with its outbox and the checkpoint.
type takeoverPlan struct {
	// trusted: the outbox belongs to the last leader. It is used unchanged, and nothing is
	// replayed.
	trusted bool
	// reset says why the stored positions are not of this cluster, or is empty. The outbox
	// is emptied and the source starts from now.
	reset string
	// delivered are the positions up to which the last leader delivered, for each receiver.
	// Pending messages at or below them are dropped.
	delivered outbox.DeliveredOffsets
	// handled is like delivered. If this outbox has consumed the source further, that
	// position is used. Occurrences at or below are not stored again.
	handled outbox.DeliveredOffsets
	// position is where the source starts, in this history; 0 means from now.
	position uint64
	history  string
}

// planTakeover decides what a new leader does. found is true if there is a checkpoint.
// window is the longest window of all alarms.
func planTakeover(clusterUID string, state outbox.State, last checkpoint.Checkpoint, found bool, window time.Duration) takeoverPlan {
	foreignCheckpoint := found && last.ClusterUID != clusterUID
	foreignOutbox := state.ClusterUID != "" && state.ClusterUID != clusterUID
	useCheckpoint := found && !foreignCheckpoint
	useOutbox := state.ClusterUID == clusterUID

	switch {
	case useOutbox && (!useCheckpoint || ownsTerm(state, last)):
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

// planReplay plans a replay from the lowest position of a receiver. It starts earlier by
// the longest window, so that thresholds have their state when the first message is sent.
// Occurrences that this outbox has consumed are either sent or pending, and not stored
// again.
func planReplay(last checkpoint.Checkpoint, state outbox.State, window time.Duration) takeoverPlan {
	consumed := consumedPosition(state)
	plan := takeoverPlan{
		history:   last.History,
		delivered: outbox.DeliveredOffsets{Default: last.Position, Receivers: last.Behind, Waiting: last.Waiting},
		handled:   outbox.DeliveredOffsets{Default: max(last.Position, consumed), Waiting: waitingKeys(last.Waiting).notHandledBy(state)},
	}
	plan.position = plan.handled.Default
	for receiver, delivered := range last.Behind {
		handled := max(delivered, consumed)
		if handled == plan.handled.Default {
			continue
		}
		if plan.handled.Receivers == nil {
			plan.handled.Receivers = map[string]uint64{}
		}
		plan.handled.Receivers[receiver] = handled
		plan.position = min(plan.position, handled)
	}
	for _, positions := range plan.handled.Waiting {
		for _, position := range positions {
			plan.position = min(plan.position, position-1)
		}
	}
	plan.position = last.Before(plan.position, window)
	return plan
}

// consumedPosition returns the position up to which the outbox contains everything. If an
// earlier replay was interrupted, it is where that replay would have ended.
func consumedPosition(state outbox.State) uint64 {
	lowest := state.Delivered.Default
	for _, position := range state.Delivered.Receivers {
		lowest = min(lowest, position)
	}
	return max(state.Position, lowest)
}
