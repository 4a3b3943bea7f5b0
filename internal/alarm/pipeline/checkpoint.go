package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
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
	next, _, err := p.eventCheckpoint(ctx)
	if err != nil {
		return err
	}
	if err := p.addStreams(ctx, &next); err != nil {
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

// eventCheckpoint returns the part of the checkpoint that is about Events.
func (p *Pipeline) eventCheckpoint(ctx context.Context) (checkpoint.Checkpoint, outbox.Snapshot, error) {
	snapshot := p.Outbox.Snapshot()
	c := newCheckpoint(snapshot, p.epoch)
	c.PositionHistory, c.Time = p.extendedHistory(snapshot), p.readTime(snapshot)
	if c.Position == alarm.ResetPosition && len(c.PositionHistory) > 0 {
		c.Time = c.PositionHistory[0].Time
	}
	return c, snapshot, p.addWaiting(ctx, &c, snapshot)
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
	c, snapshot, err := p.eventCheckpoint(ctx)
	if err != nil {
		return time.Time{}, err
	}
	needed := neededPosition(outbox.DeliveredOffsets{Default: c.Position, Receivers: c.Behind, Waiting: c.Waiting})
	if needed >= c.Position && c.Position != alarm.ResetPosition && !snapshot.Newest.IsZero() {
		return snapshot.Newest, nil
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
	if s.Position < s.Delivered.Default || s.Position == s.Delivered.Default && s.Time.IsZero() {
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
		Position: max(s.Position, s.Delivered.Default),
		Behind:   map[string]uint64{},
	}
	for receiver := range s.Delivered.Receivers {
		c.Behind[receiver] = s.Delivered.Offset(receiver)
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

// waitingKeys are the occurrences that wait in groups, in their messages, or set aside: for each
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

// addWaiting adds the occurrences that wait to the checkpoint: in groups, set aside, for an
// object, and those that a replay has not reached yet. If a namespace has too many, it sets some of
// its receivers back to the oldest of them instead. If the outbox is then lost, these receivers
// can get later messages twice. It reads those that wait for an object before those in groups,
// because a decision can move them into a group.
func (p *Pipeline) addWaiting(ctx context.Context, c *checkpoint.Checkpoint, snapshot outbox.Snapshot) error {
	awaited, err := p.Outbox.CountAwaited(ctx)
	if err != nil {
		return err
	}
	counts, ahead := p.Outbox.HeldCounts(), aheadOf(snapshot)
	for receiver, w := range awaited {
		counts[receiver] += w.Count
	}
	for receiver, held := range ahead {
		counts[receiver] += len(held)
	}
	excess := checkpoint.Excess(counts, checkpoint.MaxWaiting)
	keys, err := p.Outbox.Awaited(ctx, excess)
	if err != nil {
		return err
	}
	if err := p.setBack(ctx, c, excess, awaited, ahead); err != nil {
		return err
	}
	c.Waiting, err = p.Outbox.HeldKeys(ctx, excess)
	for _, more := range []waitingKeys{keys, ahead} {
		for receiver, held := range more {
			for key, position := range held {
				waitingKeys(c.Waiting).add(receiver, key, position)
			}
		}
	}
	return err
}

// aheadOf returns the occurrences that wait and that a replay has not reached yet.
func aheadOf(snapshot outbox.Snapshot) waitingKeys {
	ahead := waitingKeys{}
	for receiver, held := range snapshot.Delivered.Waiting {
		for key, position := range held {
			if position > snapshot.Position || isResetting(snapshot) {
				ahead.add(receiver, key, position)
			}
		}
	}
	return ahead
}

// setBack sets receivers back to the oldest of their occurrences that wait, and removes them from
// ahead.
func (p *Pipeline) setBack(ctx context.Context, c *checkpoint.Checkpoint, receivers []string, awaited map[string]outbox.Waiting, ahead waitingKeys) error {
	lowest, err := p.Outbox.LowestHeld(ctx, receivers)
	if err != nil {
		return err
	}
	for _, receiver := range receivers {
		if w, ok := awaited[receiver]; ok {
			setLowest(lowest, receiver, w.Lowest)
		}
		for _, position := range ahead[receiver] {
			setLowest(lowest, receiver, position)
		}
		delete(ahead, receiver)
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
