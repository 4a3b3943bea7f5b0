package pipeline

import (
	"context"

	"github.com/bongsu-io/bongsu/internal/alarm/checkpoint"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// waiting is what waits in groups, or in their messages: by receiver the position of
// each idempotency key.
type waitingKeys map[string]outbox.Held

func (w waitingKeys) add(receiver, key string, position uint64) {
	if w[receiver] == nil {
		w[receiver] = outbox.Held{}
	}
	w[receiver][key] = position
}

// addWaiting adds to the mirror what waits in groups: what this ledger holds, and what
// a replay has yet to come to. Where that is too much, receivers are behind for it
// instead: what they got since may then be repeated, if the ledger is lost.
func (p *Pipeline) addWaiting(ctx context.Context, m *checkpoint.Checkpoint, snapshot outbox.Snapshot) error {
	all, n, err := p.ledger.HeldKeys(ctx, checkpoint.MaxWaiting)
	if err != nil {
		return err
	}
	m.Waiting = all
	lowest := map[string]uint64{}
	for receiver, held := range snapshot.Floors.Waiting {
		for key, position := range held {
			if position > snapshot.Position {
				waitingKeys(m.Waiting).add(receiver, key, position)
				setLowest(lowest, receiver, position)
				n++
			}
		}
	}
	if n <= checkpoint.MaxWaiting {
		return nil
	}
	m.Waiting = nil
	held, err := p.ledger.LowestHeld(ctx)
	if err != nil {
		return err
	}
	for receiver, position := range held {
		setLowest(lowest, receiver, position)
	}
	for receiver, position := range lowest {
		m.FallBehind(receiver, position)
	}
	return nil
}

func setLowest(positions map[string]uint64, receiver string, position uint64) {
	if former, ok := positions[receiver]; !ok || position < former {
		positions[receiver] = position
	}
}

// unknown is what of it the ledger does not account for: what is to be read again.
func (w waitingKeys) notHandledBy(s outbox.State) waitingKeys {
	left := waitingKeys{}
	for receiver, held := range w {
		for key, position := range held {
			if !s.Accounts(receiver, key, position) {
				left.add(receiver, key, position)
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}
