package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
)

// mirrorEvery is how old the mirror may be: what was sent in this time may be
// sent again if the ledger is lost.
const checkpointInterval = 5 * time.Second

// keepMirror writes the mirror when it changed, at most every mirrorEvery, and
// once more at the end. It returns mirror.ErrDeposed when another process has
// taken over, for then this one must stop.
func (p *Pipeline) keepCheckpoint(ctx context.Context) error {
	ticker := p.clock.NewTicker(checkpointInterval)
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
			p.log.Error(err, "the mirror could not be written; retrying")
		}
	}
}

// flushMirror writes the mirror if it changed.
func (p *Pipeline) writeCheckpoint(ctx context.Context) error {
	p.checkpointMu.Lock()
	defer p.checkpointMu.Unlock()
	snapshot := p.ledger.Snapshot()
	m := newCheckpoint(snapshot, p.epoch)
	if err := p.addWaiting(ctx, &m, snapshot); err != nil {
		return err
	}
	m.Trail = checkpoint.ExtendHistory(p.positionHistory(m.History), snapshot.Position, snapshot.Newest)
	leftOut := m.Fit()
	if m.Equal(p.lastCheckpoint) {
		return nil
	}
	if err := p.mirror.Write(ctx, m); err != nil {
		return err
	}
	if leftOut > 0 {
		p.log.Info("too many receivers are behind: some are not in the mirror", "leftOut", leftOut)
	}
	p.lastCheckpoint = m
	return nil
}

// trailOf is the trail as it was last, of this term or the one before. That of
// another history leads nowhere.
func (p *Pipeline) positionHistory(history string) []checkpoint.Offset {
	if p.lastCheckpoint.History != history {
		return nil
	}
	return p.lastCheckpoint.Trail
}
