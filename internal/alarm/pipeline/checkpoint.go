package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
)

// mirrorEvery is how old the mirror may be: what was sent in this time may be
// sent again if the ledger is lost.
const mirrorEvery = 5 * time.Second

// keepMirror writes the mirror when it changed, at most every mirrorEvery, and
// once more at the end. It returns mirror.ErrDeposed when another process has
// taken over, for then this one must stop.
func (p *Pipeline) keepMirror(ctx context.Context) error {
	ticker := p.clock.NewTicker(mirrorEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if err := p.flushMirror(ctx); errors.Is(err, checkpoint.ErrDeposed) {
			return err
		} else if err != nil && ctx.Err() == nil {
			p.log.Error(err, "the mirror could not be written; retrying")
		}
	}
}

// flushMirror writes the mirror if it changed.
func (p *Pipeline) flushMirror(ctx context.Context) error {
	p.mirrorMu.Lock()
	defer p.mirrorMu.Unlock()
	snapshot := p.ledger.Snapshot()
	m := mirrorOf(snapshot, p.epoch)
	if err := p.addWaiting(ctx, &m, snapshot); err != nil {
		return err
	}
	m.PositionHistory = checkpoint.ExtendPositionHistory(p.trailOf(m.History), snapshot.Position, snapshot.Newest)
	leftOut := m.Fit()
	if m.Equal(p.mirrored) {
		return nil
	}
	if err := p.mirror.Write(ctx, m); err != nil {
		return err
	}
	if leftOut > 0 {
		p.log.Info("too many receivers are behind: some are not in the mirror", "leftOut", leftOut)
	}
	p.mirrored = m
	return nil
}

// trailOf is the trail as it was last, of this term or the one before. That of
// another history leads nowhere.
func (p *Pipeline) trailOf(history string) []checkpoint.TimedPosition {
	if p.mirrored.History != history {
		return nil
	}
	return p.mirrored.PositionHistory
}
