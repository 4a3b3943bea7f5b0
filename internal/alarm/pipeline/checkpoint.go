package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// checkpointInterval is the maximum age of the checkpoint. If the outbox is lost, messages
// of this time can be sent twice.
const checkpointInterval = 5 * time.Second

// keepCheckpoint writes the checkpoint every checkpointInterval, if it changed. It returns
// checkpoint.ErrDeposed if another process has taken over, because this one must then stop.
func (p *Pipeline) keepCheckpoint(ctx context.Context) error {
	ticker := p.Clock.NewTicker(checkpointInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if err := p.writeCheckpoint(ctx); errors.Is(err, checkpoint.ErrDeposed) {
			return err
		} else if err != nil && ctx.Err() == nil {
			p.Log.Error(err, "the checkpoint could not be written: retrying")
		}
	}
}

// writeCheckpoint writes the checkpoint if it changed.
func (p *Pipeline) writeCheckpoint(ctx context.Context) error {
	p.checkpointMu.Lock()
	defer p.checkpointMu.Unlock()
	snapshot := p.Outbox.Snapshot()
	next := newCheckpoint(snapshot, p.epoch)
	if err := p.addWaiting(ctx, &next, snapshot); err != nil {
		return err
	}
	next.PositionHistory = checkpoint.ExtendPositionHistory(p.positionHistory(next.History), snapshot.Position, snapshot.Newest)
	omitted := next.Fit()
	if next.Equal(p.lastCheckpoint) {
		return nil
	}
	if err := p.Checkpoint.Write(ctx, next); err != nil {
		return err
	}
	if omitted > 0 {
		p.Log.Info("too many receivers are behind: some are not in the checkpoint", "omitted", omitted)
	}
	p.lastCheckpoint = next
	return nil
}

// positionHistory returns the position history of the last checkpoint. Positions of
// another history of the API server's store are useless.
func (p *Pipeline) positionHistory(history string) []checkpoint.TimedPosition {
	if p.lastCheckpoint.History != history {
		return nil
	}
	return p.lastCheckpoint.PositionHistory
}

// newCheckpoint returns the position of each receiver: that before its first pending
// message, or that of the source. During a replay, it is at least the position up to which
// the last leader delivered.
func newCheckpoint(s outbox.Snapshot, epoch string) checkpoint.Checkpoint {
	c := checkpoint.Checkpoint{
		ClusterUID: s.ClusterUID, Epoch: epoch, History: s.History,
		Position: max(s.Position, s.Delivered.Default),
		Behind:   map[string]uint64{},
	}
	for receiver := range s.Delivered.Receivers {
		c.Behind[receiver] = max(s.Position, s.Delivered.Offset(receiver))
	}
	for receiver, backlog := range s.Backlogs {
		c.Behind[receiver] = backlog.Lowest - 1
	}
	for receiver, position := range c.Behind {
		if position >= c.Position {
			delete(c.Behind, receiver)
		}
	}
	return c
}

// waitingKeys are the occurrences that wait in groups or in their messages: for each
// receiver, their positions by idempotency key.
type waitingKeys map[string]outbox.Held

func (w waitingKeys) add(receiver, key string, position uint64) {
	if w[receiver] == nil {
		w[receiver] = outbox.Held{}
	}
	w[receiver][key] = position
}

// notHandledBy returns the occurrences that this outbox neither contains nor has sent.
// They must be read again.
func (w waitingKeys) notHandledBy(state outbox.State) waitingKeys {
	missing := waitingKeys{}
	for receiver, held := range w {
		for key, position := range held {
			if !state.Covers(receiver, key, position) {
				missing.add(receiver, key, position)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return missing
}

// addWaiting adds the occurrences that wait in groups to the checkpoint: those in the
// outbox, and those that a replay has not reached yet. If they are too many, it sets their
// receivers back to the oldest of them instead. If the outbox is then lost, these receivers
// can get later messages twice.
func (p *Pipeline) addWaiting(ctx context.Context, c *checkpoint.Checkpoint, snapshot outbox.Snapshot) error {
	all, n, err := p.Outbox.HeldKeys(ctx, checkpoint.MaxWaiting)
	if err != nil {
		return err
	}
	c.Waiting = all
	lowest := map[string]uint64{}
	for receiver, held := range snapshot.Delivered.Waiting {
		for key, position := range held {
			if position > snapshot.Position {
				waitingKeys(c.Waiting).add(receiver, key, position)
				setLowest(lowest, receiver, position)
				n++
			}
		}
	}
	if n <= checkpoint.MaxWaiting {
		return nil
	}
	c.Waiting = nil
	held, err := p.Outbox.LowestHeld(ctx)
	if err != nil {
		return err
	}
	for receiver, position := range held {
		setLowest(lowest, receiver, position)
	}
	for receiver, position := range lowest {
		c.FallBehind(receiver, position)
	}
	return nil
}

func setLowest(positions map[string]uint64, receiver string, position uint64) {
	if lowest, ok := positions[receiver]; !ok || position < lowest {
		positions[receiver] = position
	}
}
