package outbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// State describes the position and the leader's term.
type State struct {
	// ClusterUID is the cluster that positions belong to; empty in a new outbox.
	ClusterUID string
	// Epoch is the token of the term in which this outbox was last written. NextEpoch is
	// a token that is claimed and not yet confirmed. Both can be empty.
	Epoch, NextEpoch string
	// Position is the resourceVersion up to which Events are committed.
	Position uint64
	// Time is the last EventStep.Time.
	Time time.Time
	// Newest is the time of the newest occurrence up to Position.
	Newest time.Time
	// CountsKnown is true if the counts are complete as of Position.
	CountsKnown bool
	// Delivered contains the delivered offsets of the last Replay.
	Delivered progress.Offsets
	// History names the history that positions belong to. It changes when etcd is
	// restored to an older state. Positions of different histories are not comparable.
	History string
	// Since is the time since when Events are needed for what waited as the history began. It is the
	// time of the newest occurrence if nothing did, and zero if it is not known.
	Since time.Time
}

// Claim stores the token of a new term before the checkpoint contains it. After a crash
// in between, the outbox knows both tokens.
func (s *Store) Claim(ctx context.Context, epoch string) error {
	return s.changeState(ctx, "claim an epoch", func(s *State) { s.NextEpoch = epoch })
}

// Confirm makes the claimed epoch the current one, if there is a claim. From now on, the
// counts are visible: see [Statuses.Counts].
func (s *Store) Confirm(ctx context.Context) error {
	return s.changeState(ctx, "confirm the epoch", func(s *State) {
		if s.NextEpoch != "" {
			s.Epoch, s.NextEpoch = s.NextEpoch, ""
		}
	}, (*memory).confirm)
}

// Reset removes everything. The outbox is then empty, belongs to a cluster, and has a
// position and no epoch.
func (s *Store) Reset(ctx context.Context, clusterUID string, position uint64) error {
	return s.write(ctx, "reset", func(ctx context.Context, tx *tx) error {
		if err := tx.empty(ctx, "attempt", "entry", "held", "parked", "event_count", "open_group", "digested", "status_count"); err != nil {
			return err
		}
		if err := tx.forgetStreams(ctx); err != nil {
			return err
		}
		tx.space.ClearAll()
		tx.after(func(m *memory) { m.clear() })
		return tx.setState(ctx, State{ClusterUID: clusterUID, Position: position})
	})
}

func (tx *tx) empty(ctx context.Context, tables ...string) error {
	for _, table := range tables {
		if _, err := tx.exec(ctx, `DELETE FROM `+table); err != nil {
			return err
		}
	}
	return nil
}

func (s *core) changeState(ctx context.Context, what string, change func(*State), after ...func(*memory)) error {
	return s.write(ctx, what, func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		change(&state)
		tx.changes = append(tx.changes, after...)
		return tx.setState(ctx, state)
	})
}

const selectState = `SELECT cluster, epoch, next_epoch, position, time, newest, complete, delivered, history, since FROM stream WHERE id = 0`

func (tx *tx) state(ctx context.Context) (State, error) {
	return scanState(tx.row(ctx, selectState))
}

func scanState(row file.Row) (s State, err error) {
	err = row.Scan(&s.ClusterUID, &s.Epoch, &s.NextEpoch, &s.Position,
		timestamp{&s.Time}, timestamp{&s.Newest}, &s.CountsKnown, jsonColumn{&s.Delivered}, &s.History, timestamp{&s.Since})
	return s, err
}

func (tx *tx) setState(ctx context.Context, state State) error {
	delivered, err := json.Marshal(state.Delivered)
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE stream SET cluster = ?, epoch = ?, next_epoch = ?, position = ?, time = ?, newest = ?, complete = ?, delivered = ?, history = ?, since = ? WHERE id = 0`,
		state.ClusterUID, state.Epoch, state.NextEpoch, state.Position, micros(state.Time), micros(state.Newest), state.CountsKnown, string(delivered), state.History, micros(state.Since))
	tx.after(func(m *memory) { m.state = state })
	return err
}
