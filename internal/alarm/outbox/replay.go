package outbox

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// Replay is what a leader knows that does not have the outbox of the last one.
type Replay struct {
	// History and Position are where the source begins to read Events. The position can be earlier
	// than that of the outbox.
	History  string
	Position uint64
	// Delivered are the offsets up to which the last leader delivered, by stream. The name of that of
	// Events is empty.
	Delivered map[string]progress.Offsets
	// Handled also contains what this outbox has consumed of Events: occurrences at or below it are not
	// stored again.
	Handled progress.Offsets
	// Streams replace all streams. They have no baselines. States replace all states.
	Streams []Stream
	States  []Lasting
}

// Replay prepares the outbox for a new leader: it removes what another leader delivered, and sets
// the positions at which the sources begin. After a crash, Replay can be repeated.
func (s *Store) Replay(ctx context.Context, r Replay) error {
	if err := s.drop(ctx, r.Delivered); err != nil {
		return err
	}
	return s.write(ctx, "set the positions", func(ctx context.Context, tx *tx) error {
		if err := tx.replayStreams(ctx, &r); err != nil {
			return err
		}
		return tx.replayEvents(ctx, &r)
	})
}

// offsets are delivered offsets by stream.
type offsets map[string]progress.Offsets

// cover is false for a stream without offsets.
func (o offsets) cover(stream, receiver, key string, position uint64) bool {
	of, ok := o[stream]
	return ok && of.CoversSurely(receiver, key, position)
}

// drop removes what another leader delivered.
func (s *core) drop(ctx context.Context, delivered offsets) error {
	if err := s.keepWaiting(ctx, delivered[""].Waiting); err != nil {
		return err
	}
	if err := s.dropEntries(ctx, delivered); err != nil {
		return err
	}
	return s.write(ctx, "drop delivered occurrences", func(ctx context.Context, tx *tx) error {
		if err := tx.dropParts(ctx, delivered); err != nil {
			return err
		}
		return tx.dropParked(ctx, delivered)
	})
}

// keepWaiting marks the entries whose occurrences still wait at another leader, for example
// because it could not read their object, or set them aside. Otherwise, they would lower the offset of
// their receiver.
func (s *core) keepWaiting(ctx context.Context, waiting progress.Waiting) error {
	return s.write(ctx, "keep entries that are not delivered", func(ctx context.Context, tx *tx) error {
		for receiver, held := range waiting {
			for key, position := range held {
				_, err := tx.exec(ctx, `UPDATE entry SET late = 1, position = ? WHERE receiver = ? AND key = ? AND group_id = ''`, position, receiver, key)
				if err != nil {
					return err
				}
			}
			if err := tx.removed(ctx, receiver, 0, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropEntries removes the entries that another leader delivered, in chunks. If a prepared message
// loses an entry, its other entries are pending again. Messages of groups lose parts: see dropParts.
func (s *core) dropEntries(ctx context.Context, delivered offsets) error {
	gone := map[string][]int64{}
	rows, err := s.readers.QueryContext(ctx, `SELECT id, receiver, stream, key, position FROM entry WHERE group_id = ''`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var id int64
		var receiver, stream, key string
		var position uint64
		err := rows.Scan(&id, &receiver, &stream, &key, &position)
		if delivered.cover(stream, receiver, key, position) {
			gone[receiver] = append(gone[receiver], id)
		}
		return err
	})
	for receiver, ids := range gone {
		for ids := range slices.Chunk(ids, chunk) {
			if err == nil {
				err = s.writeLazily(ctx, "drop delivered entries", func(ctx context.Context, tx *tx) error {
					_, err := tx.remove(ctx, receiver, ids)
					return err
				})
			}
		}
	}
	return s.read("drop delivered entries", err)
}

// heldPart is a row of held.
type heldPart struct {
	receiver, key, stream string
	position              uint64
	entry                 sql.Null[uint64]
}

// dropParts removes what another leader delivered from groups and from messages of groups. If a
// message loses a part, the message is removed and its other parts wait in their group again.
func (tx *tx) dropParts(ctx context.Context, delivered offsets) error {
	broken, err := tx.dropDeliveredParts(ctx, delivered)
	if err != nil {
		return err
	}
	for entry, receiver := range broken {
		if err := tx.undoMessage(ctx, receiver, entry); err != nil {
			return err
		}
	}
	return nil
}

// dropDeliveredParts removes the parts that were delivered. It returns the messages they were
// in, with their receivers.
func (tx *tx) dropDeliveredParts(ctx context.Context, delivered offsets) (broken map[uint64]string, err error) {
	parts, err := tx.allParts(ctx)
	if err != nil {
		return nil, err
	}
	broken = map[uint64]string{}
	for _, p := range parts {
		if !delivered.cover(p.stream, p.receiver, p.key, p.position) {
			continue
		}
		if err := tx.dropPart(ctx, p); err != nil {
			return nil, err
		}
		if p.entry.Valid {
			broken[p.entry.V] = p.receiver
		}
	}
	return broken, nil
}

func (tx *tx) allParts(ctx context.Context) (parts []heldPart, err error) {
	rows, err := tx.query(ctx, `SELECT receiver, key, stream, position, entry FROM held`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var p heldPart
		err := rows.Scan(&p.receiver, &p.key, &p.stream, &p.position, &p.entry)
		parts = append(parts, p)
		return err
	})
	return parts, err
}

func (tx *tx) dropPart(ctx context.Context, p heldPart) error {
	_, err := tx.deleteHeld(ctx, p.receiver, `receiver = ? AND key = ?`, p.receiver, p.key)
	return err
}

// undoMessage removes a message of a group and keeps its parts.
func (tx *tx) undoMessage(ctx context.Context, receiver string, entry uint64) error {
	if _, err := tx.exec(ctx, `UPDATE held SET entry = NULL WHERE entry = ?`, entry); err != nil {
		return err
	}
	_, err := tx.remove(ctx, receiver, []int64{int64(entry)})
	return err
}

// dropParked marks the receivers of parked occurrences to which another leader delivered. If all are, it removes the occurrence.
func (tx *tx) dropParked(ctx context.Context, delivered offsets) error {
	changed := map[int64]map[string]string{}
	rows, err := tx.query(ctx, `SELECT id, receivers, position FROM parked`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var id int64
		var receivers map[string]string
		var position uint64
		err := rows.Scan(&id, jsonColumn{&receivers}, &position)
		for receiver, key := range receivers {
			if key != "" && delivered.cover("", receiver, key, position) {
				receivers[receiver] = ""
				changed[id] = receivers
			}
		}
		return err
	})
	for id, receivers := range changed {
		waits := slices.ContainsFunc(slices.Collect(maps.Values(receivers)), func(key string) bool { return key != "" })
		switch {
		case err != nil:
		case !waits:
			err = tx.deleteParked(ctx, id)
		default:
			_, err = tx.exec(ctx, `UPDATE parked SET receivers = ? WHERE id = ?`, jsonColumn{receivers}, id)
		}
	}
	return err
}

// replayStreams replaces all streams by those of r, which have no baselines, and all states.
func (tx *tx) replayStreams(ctx context.Context, r *Replay) error {
	if err := tx.forgetStreams(ctx); err != nil {
		return err
	}
	tx.space.Clear(ledger.Objects)
	tx.space.Clear(ledger.States)
	for _, stream := range r.Streams {
		stream.Complete = false
		if _, err := tx.putStream(ctx, stream); err != nil {
			return err
		}
	}
	return tx.changeLasting(ctx, LastingChanges{Put: r.States})
}

// replayEvents sets the position of Events and its history. If either changes, it removes counts of
// Events, windows and groups, which belong to the former position. It removes the counts for the status,
// because another leader has counted on.
func (tx *tx) replayEvents(ctx context.Context, r *Replay) error {
	state, err := tx.state(ctx)
	if err != nil {
		return err
	}
	if r.Position != state.Position || r.History != state.History {
		if err := tx.empty(ctx, "event_count", "open_group"); err != nil {
			return err
		}
		tx.space.Clear(ledger.Groups)
		tx.after(func(m *memory) { m.groups, m.windows = totals{}, 0 })
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
}
