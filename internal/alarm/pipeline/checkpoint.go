package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
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
	if err := p.lockCheckpoint(ctx); err != nil {
		return err
	}
	defer p.unlockCheckpoint()
	return p.writeNext(ctx)
}

// commitWithCheckpoint stores a change and writes the checkpoint. No other checkpoint is made meanwhile,
// because it could mix two histories.
func (p *Pipeline) commitWithCheckpoint(ctx context.Context, change outbox.Change) error {
	if err := p.lockCheckpoint(ctx); err != nil {
		return err
	}
	defer p.unlockCheckpoint()
	if step := change.Events; step.History != "" {
		var err error
		if step.Since, err = p.neededSince(ctx); err != nil {
			return err
		}
	}
	if err := p.Outbox.Commit(ctx, change); err != nil {
		return err
	}
	if err := p.writeNext(ctx); err != nil {
		p.Log.Error(err, "the checkpoint could not be written: retrying")
	}
	return nil
}

// writeNext is writeCheckpoint for callers that hold its lock.
func (p *Pipeline) writeNext(ctx context.Context) error {
	next, err := p.nextCheckpoint(ctx)
	if err != nil {
		return err
	}
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

// nextCheckpoint reads the positions first: what is committed after them is read again. It reads states
// before what waits, because a report that is not sent yet must not look sent.
func (p *Pipeline) nextCheckpoint(ctx context.Context) (checkpoint.Checkpoint, error) {
	snapshot := p.Outbox.Snapshot()
	c := newCheckpoint(snapshot, p.epoch)
	c.PositionHistory, c.Time = p.extendedHistory(snapshot), p.readTime(snapshot)
	if c.Position == alarm.ResetPosition && len(c.PositionHistory) > 0 {
		c.Time = c.PositionHistory[0].Time
	}
	streams, err := p.Outbox.Streams.All(ctx)
	if err != nil {
		return c, err
	}
	states, err := p.Outbox.States.Open(ctx, maxCheckpointStates)
	if err != nil {
		return c, err
	}
	waiting, err := p.readWaiting(ctx, &c, snapshot)
	c.Waiting = waiting[""]
	addStreams(&c, streams, states, waiting)
	return c, err
}

// extendedHistory returns the position history of the next checkpoint. Positions of another
// history of the API server's store are useless. A history that a reset began starts with it.
func (p *Pipeline) extendedHistory(s outbox.Snapshot) []checkpoint.TimedPosition {
	var last []checkpoint.TimedPosition
	if p.lastCheckpoint.History == s.History {
		last = p.lastCheckpoint.PositionHistory
	}
	if len(last) == 0 && s.History != "" {
		last = checkpoint.ExtendPositionHistory(nil, alarm.ResetPosition, s.Since)
	}
	return checkpoint.ExtendPositionHistory(last, s.Position, s.Newest)
}

// neededSince returns outbox.State.Since for a history that begins now. Another leader that reads
// Events again takes older ones for known. The caller holds the lock of the checkpoint.
func (p *Pipeline) neededSince(ctx context.Context) (time.Time, error) {
	c, err := p.nextCheckpoint(ctx)
	if err != nil {
		return time.Time{}, err
	}
	needed := c.Needed()
	if newest := p.Outbox.State().Newest; needed >= c.Position && c.Position != alarm.ResetPosition && !newest.IsZero() {
		return newest, nil
	}
	return c.TimeOf(max(needed, alarm.ResetPosition)), nil
}

// lockCheckpoint waits until no checkpoint is written.
func (p *Pipeline) lockCheckpoint(ctx context.Context) error {
	select {
	case p.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Pipeline) unlockCheckpoint() { <-p.writing }

// readTime returns the time of the checkpoint's position. During a replay, both are those
// of the last leader.
func (p *Pipeline) readTime(s outbox.Snapshot) int64 {
	if s.Position < s.Delivered.Position || s.Position == s.Delivered.Position && s.Time.IsZero() {
		return p.lastCheckpoint.Time
	}
	if s.Time.IsZero() {
		return 0
	}
	return s.Time.Unix()
}

// newCheckpoint returns the position of each receiver: that before its first pending
// message, or that of the source. During a replay, it is at least the position up to which
// the last leader delivered.
func newCheckpoint(s outbox.Snapshot, epoch string) checkpoint.Checkpoint {
	c := checkpoint.Checkpoint{
		ClusterUID: s.ClusterUID, Epoch: epoch, History: s.History,
		Offsets: progress.Offsets{Position: max(s.Position, s.Delivered.Position), Behind: map[string]uint64{}},
	}
	for receiver := range s.Delivered.Behind {
		c.Behind[receiver] = s.Delivered.Of(receiver)
		if !isResetting(s) {
			c.Behind[receiver] = max(s.Position, c.Behind[receiver])
		}
	}
	for receiver, backlog := range s.Backlogs {
		if backlog.Lowest > 0 {
			c.FallBehind(receiver, backlog.Lowest) // not beyond the replay: late messages can be
		}
	}
	for receiver, position := range c.Behind {
		if position >= c.Position {
			delete(c.Behind, receiver)
		}
	}
	return c
}

// isResetting reports whether not all Events are listed since a reset. What waited then has no known
// position yet.
func isResetting(s outbox.Snapshot) bool {
	return s.Position == alarm.ResetPosition && s.History != ""
}

// readWaiting returns the occurrences that wait, by stream, with the Events that a replay has not reached
// yet. If a namespace has too many, it sets some of its receivers back to the oldest of their Events
// instead. If the outbox is then lost, these receivers can get later messages twice.
func (p *Pipeline) readWaiting(ctx context.Context, c *checkpoint.Checkpoint, snapshot outbox.Snapshot) (map[string]progress.Waiting, error) {
	counts, err := p.Outbox.CountWaiting(ctx)
	if err != nil {
		return nil, err
	}
	ahead := snapshot.Delivered.Waiting.Select(func(_, _ string, position uint64) bool {
		return position > snapshot.Position || isResetting(snapshot)
	})
	events, changes := map[string]int{}, map[string]int{}
	for receiver, w := range counts {
		events[receiver], changes[receiver] = w.Events, w.Changes
	}
	for receiver, keys := range ahead {
		events[receiver] += len(keys)
	}
	excess := checkpoint.Excess(events, checkpoint.MaxWaiting)
	for _, receiver := range excess {
		lowest := ahead.Lowest(receiver)
		if w := counts[receiver]; w.Events > 0 {
			lowest = min(lowest, w.Lowest)
		}
		c.FallBehind(receiver, lowest)
		delete(ahead, receiver)
	}
	waiting, err := p.Outbox.WaitingKeys(ctx, excess, checkpoint.Limits(changes, checkpoint.MaxWaiting))
	if err == nil {
		waiting[""].AddAll(ahead)
	}
	return waiting, err
}
