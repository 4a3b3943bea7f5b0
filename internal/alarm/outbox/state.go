package outbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
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
	Delivered DeliveredOffsets
	// History names the history that positions belong to. It changes when etcd is
	// restored to an older state. Positions of different histories are not comparable.
	History string
	// Since is the time since when Events are needed for what waited as the history began. It is the
	// time of the newest occurrence if nothing did, and zero if it is not known.
	Since time.Time
}

// Covers reports whether this outbox handled an occurrence while its replica led: the
// message waits here, was sent, or was known to be sent.
func (s State) Covers(receiver, key string, position uint64) bool {
	return position <= s.Position || s.Delivered.Covers(key, position, receiver)
}

// DeliveredOffsets are the positions up to which a replay must not create entries again:
// their messages were sent or already wait here. Offsets below the current position have
// no effect.
type DeliveredOffsets struct {
	// Default is the offset of receivers that are not in Receivers.
	Default   uint64            `json:"default,omitempty"`
	Receivers map[string]uint64 `json:"receivers,omitempty"`
	// Waiting contains, for each receiver, the occurrences at or below its offset that
	// were not sent.
	Waiting map[string]Held `json:"waiting,omitempty"`
	// Reset means that a reset began their history. What waited then has no known position in it.
	Reset bool `json:"-"`
}

// mayLackReset reports whether something that waited for a receiver at a reset is perhaps not sent.
// The receiver then does not have everything of the history that the reset began.
func (d DeliveredOffsets) mayLackReset(receiver string) bool {
	_, behind := d.Receivers[receiver]
	return d.Reset && (behind || len(d.Waiting[receiver]) > 0)
}

// Covers reports whether the occurrence with the key, at the position, needs no new entry for
// a receiver.
func (d DeliveredOffsets) Covers(key string, position uint64, receiver string) bool {
	_, waits := d.Waiting[receiver][key]
	return !waits && position <= d.Offset(receiver)
}

// offsets are delivered offsets by stream. The name of that of Events is empty.
type offsets map[string]DeliveredOffsets

func (d DeliveredOffsets) ofEvents() offsets { return offsets{"": d} }

// cover is Covers for an occurrence of a stream. It is false if the stream has no offsets, and for
// what waited at a reset and is perhaps not sent.
func (o offsets) cover(stream, receiver, key string, position uint64) bool {
	d, ok := o[stream]
	return ok && d.Covers(key, position, receiver) && (position > alarm.ResetPosition || !d.mayLackReset(receiver))
}

// passedBy reports whether no offset is after the position.
func (d DeliveredOffsets) passedBy(position uint64) bool {
	for _, offset := range d.Receivers {
		if offset > position {
			return false
		}
	}
	return d.Default <= position
}

// Offset returns the offset of a receiver.
func (d DeliveredOffsets) Offset(receiver string) uint64 {
	if position, ok := d.Receivers[receiver]; ok {
		return position
	}
	return d.Default
}

// Claim stores the token of a new term before the checkpoint contains it. After a crash
// in between, the outbox knows both tokens.
func (s *Store) Claim(ctx context.Context, epoch string) error {
	return s.changeState(ctx, "claim an epoch", func(s *State) { s.NextEpoch = epoch })
}

// Confirm makes the claimed epoch the current one, if there is a claim. From now on, the
// counts are visible: see [Store.StatusCounts].
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
		if err := tx.empty(ctx, "attempt", "entry", "held", "parked", "awaited", "event_count", "window", "open_group", "digested", "status_count", "stream", "baseline", "shape", "lasting"); err != nil {
			return err
		}
		tx.after(func(m *memory) {
			m.backlogs, m.held, m.heldChanges = map[string]Backlog{}, map[string]int64{}, map[string]int64{}
			m.prepared = totals{}
			m.clearParked()
			m.clearBaselines()
			clear(m.counted)
			m.clearState()
		})
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

func (s *Store) changeState(ctx context.Context, what string, change func(*State), after ...func(*memory)) error {
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

const selectState = `SELECT cluster, epoch, next_epoch, position, time, newest, counts_known, delivered, history, since FROM state`

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
	_, err = tx.exec(ctx, `UPDATE state SET cluster = ?, epoch = ?, next_epoch = ?, position = ?, time = ?, newest = ?, counts_known = ?, delivered = ?, history = ?, since = ?`,
		state.ClusterUID, state.Epoch, state.NextEpoch, state.Position, micros(state.Time), micros(state.Newest), state.CountsKnown, string(delivered), state.History, micros(state.Since))
	tx.after(func(m *memory) { m.state = state })
	return err
}
