package outbox

import (
	"context"
	"time"
)

// Replay is what a leader knows that does not have the outbox of the last one.
type Replay struct {
	// History and Position are where the source begins to read Events. The position can be earlier
	// than that of the outbox.
	History  string
	Position uint64
	// Delivered are the offsets up to which the last leader delivered Events. Handled also contains
	// what this outbox has consumed: occurrences at or below it are not stored again.
	Delivered, Handled DeliveredOffsets
	// DeliveredChanges are the offsets up to which the last leader delivered changes, by stream.
	DeliveredChanges map[string]DeliveredOffsets
	// Streams replace all streams. They have no baselines. States replace all states.
	Streams []Stream
	States  []Lasting
}

// Replay prepares the outbox for a new leader: it removes what another leader delivered, and sets
// the positions at which the sources begin. After a crash, Replay can be repeated.
func (s *Store) Replay(ctx context.Context, r Replay) error {
	for _, do := range []func() error{
		func() error { return s.keepAwaited(ctx, r.Delivered) },
		func() error { return s.dropDelivered(ctx, r.Delivered) },
		func() error { return s.dropHeld(ctx, r.Delivered) },
		func() error { return s.dropAwaited(ctx, r.Delivered, r.Handled) },
		func() error { return s.replayStreams(ctx, &r) },
		func() error { return s.replayEvents(ctx, &r) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// replayStreams replaces all streams by those of r, which have no baselines, and all states. It removes
// the changes that another leader delivered: from groups, from messages of groups, and with their
// entries.
func (s *Store) replayStreams(ctx context.Context, r *Replay) error {
	return s.write(ctx, "set the positions of streams", func(ctx context.Context, tx *tx) error {
		if err := tx.dropDeliveredParts(ctx, r.DeliveredChanges); err != nil {
			return err
		}
		if err := tx.dropDeliveredAwaited(ctx, r.DeliveredChanges); err != nil {
			return err
		}
		if err := tx.empty(ctx, "stream", "baseline", "shape", "lasting"); err != nil {
			return err
		}
		tx.after((*memory).clearBaselines)
		for _, stream := range r.Streams {
			stream.Complete = false
			if _, err := tx.putStream(ctx, stream); err != nil {
				return err
			}
		}
		return tx.changeLasting(ctx, LastingChanges{Put: r.States})
	})
}

// replayEvents sets the position of Events and its history. If either changes, it removes counts of
// Events, windows and groups, which belong to the former position. It removes the counts for the status,
// because another leader has counted on.
func (s *Store) replayEvents(ctx context.Context, r *Replay) error {
	return s.write(ctx, "set the position", func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		if r.Position != state.Position || r.History != state.History {
			if err := tx.empty(ctx, "event_count", "window", "open_group"); err != nil {
				return err
			}
			tx.after(func(m *memory) { m.clearState() })
			state.Time, state.Newest, state.CountsKnown = time.Time{}, time.Time{}, false
		}
		if err := tx.empty(ctx, "status_count"); err != nil {
			return err
		}
		tx.after(func(m *memory) { clear(m.counted) })
		if r.History != state.History {
			state.Since = time.Time{} // of the former history
		}
		state.History, state.Position, state.Delivered = r.History, r.Position, r.Handled
		return tx.setState(ctx, state)
	})
}
