package outbox

import (
	"context"
	"encoding/json"
	"time"
)

// State is what the ledger knows of its feed and its leader.
type State struct {
	// ClusterUID names the cluster that positions belong to; empty in a new ledger.
	ClusterUID string
	// Epoch is the token of the leadership that this ledger was last written
	// under, NextEpoch the one that was claimed and not yet confirmed; either may
	// be empty.
	Epoch, NextEpoch string
	// Position is how far the feed was read.
	Position uint64
	// Time is the last Batch.Time.
	Time time.Time
	// Newest is when the newest of what was read up to Position happened.
	Newest time.Time
	// Counted says that the counts are complete as of Position.
	CountsKnown bool
	// Floors are those of the last Replay.
	Delivered DeliveredOffsets
	// History names the history that positions are of: it changes when the API
	// server's store was put back to an older state. Positions of two histories
	// cannot be compared.
	History string
}

// Accounts says whether the ledger knew what became of an entry when it was led: it
// holds it, has sent it, or knew that it was sent.
func (s State) Covers(receiver, key string, position uint64) bool {
	return position <= s.Position || s.Delivered.Covers(receiver, key, position)
}

// Floors are, in a replay, the positions up to which all is accounted for already,
// be it sent or pending here: entries at or below are not made again. Those that
// the feed has passed have no effect.
type DeliveredOffsets struct {
	// Default is that of a receiver that is not in Receivers.
	Default   uint64            `json:"default,omitempty"`
	Receivers map[string]uint64 `json:"receivers,omitempty"`
	// Waiting is, by receiver, what is at or below its floor and was not sent.
	Waiting map[string]Held `json:"waiting,omitempty"`
}

// Served says whether what has the key, and happened at the position, is accounted
// for.
func (f DeliveredOffsets) Covers(receiver, key string, position uint64) bool {
	_, waits := f.Waiting[receiver][key]
	return position <= f.Offset(receiver) && !waits
}

// passed says whether nothing beyond a position is accounted for.
func (f DeliveredOffsets) passedBy(position uint64) bool {
	for _, floor := range f.Receivers {
		if floor > position {
			return false
		}
	}
	return f.Default <= position
}

// Of returns the floor of a receiver.
func (f DeliveredOffsets) Offset(receiver string) uint64 {
	if position, ok := f.Receivers[receiver]; ok {
		return position
	}
	return f.Default
}

// Claim stores the token of a leadership that begins, before it is published: a
// crash in between leaves a ledger that knows both tokens.
func (l *Store) Claim(ctx context.Context, epoch string) error {
	return l.changeState(ctx, "claiming an epoch", func(s *State) { s.NextEpoch = epoch })
}

// Confirm makes the claimed epoch the current one. Without a claim it does nothing.
func (l *Store) Confirm(ctx context.Context) error {
	return l.changeState(ctx, "confirming the epoch", func(s *State) {
		if s.NextEpoch != "" {
			s.Epoch, s.NextEpoch = s.NextEpoch, ""
		}
	})
}

// Replay moves the feed's position, backwards too, to one of the given history.
// Counts and windows, which are of the former position, are forgotten if it is
// another one.
func (l *Store) Replay(ctx context.Context, history string, position uint64, floors DeliveredOffsets) error {
	return l.write(ctx, "setting the position", func(ctx context.Context, tx *tx) error {
		s, err := tx.state(ctx)
		if err != nil {
			return err
		}
		if position != s.Position || history != s.History {
			if err := tx.empty(ctx, "event_count", "window", "grp"); err != nil {
				return err
			}
			tx.after(func(m *memory) { m.groups, m.windows = totals{}, totals{} })
			s.Time, s.Newest, s.CountsKnown = time.Time{}, time.Time{}, false
		}
		s.History, s.Position, s.Delivered = history, position, floors
		return tx.setState(ctx, s)
	})
}

// Reset makes this the empty ledger of a cluster, at a position and without an
// epoch: everything it held is dropped.
func (l *Store) Reset(ctx context.Context, clusterUID string, position uint64) error {
	return l.write(ctx, "resetting", func(ctx context.Context, tx *tx) error {
		if err := tx.empty(ctx, "attempt", "entry", "held", "event_count", "window", "grp", "digested"); err != nil {
			return err
		}
		tx.after(func(m *memory) {
			m.backlogs, m.held = map[string]Backlog{}, map[string]int64{}
			m.groups, m.windows = totals{}, totals{}
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

func (l *Store) changeState(ctx context.Context, what string, change func(*State)) error {
	return l.write(ctx, what, func(ctx context.Context, tx *tx) error {
		s, err := tx.state(ctx)
		if err != nil {
			return err
		}
		change(&s)
		return tx.setState(ctx, s)
	})
}

const selectState = `SELECT cluster, epoch, next_epoch, position, time, newest, counted, floors, history FROM state`

func (tx *tx) state(ctx context.Context) (State, error) {
	return scanState(tx.row(ctx, selectState))
}

func scanState(row scanner) (s State, err error) {
	err = row.Scan(&s.ClusterUID, &s.Epoch, &s.NextEpoch, &s.Position,
		timestamp{&s.Time}, timestamp{&s.Newest}, &s.CountsKnown, jsonColumn{&s.Delivered}, &s.History)
	return s, err
}

func (tx *tx) setState(ctx context.Context, s State) error {
	floors, err := json.Marshal(s.Delivered)
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE state SET cluster = ?, epoch = ?, next_epoch = ?, position = ?, time = ?, newest = ?, counted = ?, floors = ?, history = ?`,
		s.ClusterUID, s.Epoch, s.NextEpoch, s.Position, micros(s.Time), micros(s.Newest), s.CountsKnown, string(floors), s.History)
	tx.after(func(m *memory) { m.state = s })
	return err
}
