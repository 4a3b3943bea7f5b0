package outbox

import (
	"context"
	"database/sql"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// deleteHeld deletes occurrences of a receiver that a condition selects. It returns their counts.
func (tx *tx) deleteHeld(ctx context.Context, receiver, where string, args ...any) (Counts, error) {
	gone, sent := Counts{}, false
	var all, changes int64
	rows, err := tx.query(ctx, `DELETE FROM held WHERE `+where+` RETURNING alarm, count, entry, stream <> ''`, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		var subject string
		var count, change int64
		var entry sql.Null[uint64]
		err := rows.Scan(&subject, &count, &entry, &change)
		gone[subject] += count
		all, changes = all+1, changes+change
		sent = sent || entry.Valid
		return err
	})
	tx.after(func(m *memory) {
		m.addHeld(receiver, -all, -changes)
		if sent {
			m.sentGroup()
		}
	})
	return gone, err
}

// hold stores an entry until the message of its group is due. An entry that already
// waits, or is in a message, is not stored again.
func (tx *tx) hold(ctx context.Context, e *Entry, s *group.State, p *group.Part, content, account int64) (bool, error) {
	n, err := tx.exec(ctx, `
		INSERT INTO held (receiver, key, group_id, alarm, position, count, created_at, due, release_at, content, account, since, total, first, resolved, ends, stream)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT (receiver, key) DO NOTHING`,
		e.Receiver, e.Key, e.Member.Group, e.Alarm, e.Position, e.Count, micros(e.CreatedAt), micros(p.Due), content, account,
		micros(s.Since), s.Total, p.First, p.Resolves, e.Member.Event.Kind == group.End, e.Stream)
	var changes int64
	if e.Stream != "" {
		changes = 1
	}
	if n > 0 {
		tx.after(func(m *memory) { m.addHeld(e.Receiver, 1, changes) })
	}
	return n > 0, err
}

// updateHastened leaves the notice of an acknowledgement, which is a message of its own.
const updateHastened = `
	UPDATE held INDEXED BY held_by_group SET due = ?3, release_at = ?3
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due > ?3 AND NOT ends AND (count > 0 OR resolved)`

// change changes what waits in the group of an entry.
func (tx *tx) change(ctx context.Context, e *Entry, s *group.State, do *group.Actions) error {
	if do.Hasten {
		if _, err := tx.exec(ctx, updateHastened, e.Receiver, e.Member.Group, micros(do.Hold.Due)); err != nil {
			return err
		}
	}
	if do.DropWaiting || do.DropResolutions {
		if err := tx.dropWaiting(ctx, e, s, do); err != nil {
			return err
		}
	}
	if do.Silenced {
		tx.after(func(m *memory) { m.silenced += e.Count })
	}
	if do.DropEnd == "" {
		return nil
	}
	_, err := tx.deleteHeld(ctx, e.Receiver, `receiver = ? AND key = ? AND entry IS NULL`, e.Receiver, do.DropEnd)
	return err
}

// dropWaiting removes what waits in a group, only resolutions unless DropWaiting is set. What waits in a
// former group with the same ID stays.
func (tx *tx) dropWaiting(ctx context.Context, e *Entry, s *group.State, do *group.Actions) error {
	counts, err := tx.deleteHeld(ctx, e.Receiver, `receiver = ? AND group_id = ? AND since = ? AND entry IS NULL AND NOT ends AND key <> ? AND (resolved OR ?)`,
		e.Receiver, e.Member.Group, micros(s.Since), e.Key, do.DropWaiting)
	tx.after(func(m *memory) {
		for _, n := range counts {
			m.silenced += n
		}
	})
	return err
}

// Held contains the occurrences that wait in the groups of a receiver: the position of
// each Entry.Key.
type Held = map[string]uint64

// HeldCounts returns the number of Events in groups, and in messages of groups that are
// not finished, for each receiver that has any. It is from memory.
func (s *Store) HeldCounts() map[string]int {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	counts := map[string]int{}
	for receiver, n := range s.memory.held {
		if events := n - s.memory.heldChanges[receiver]; events > 0 {
			counts[receiver] = int(events)
		}
	}
	return counts
}

// HeldKeys returns the Events that wait in groups, except those of some receivers. It
// includes those that HeldCounts does not have yet.
func (s *Store) HeldKeys(ctx context.Context, except []string) (map[string]Held, error) {
	held := map[string]Held{}
	// Nil would be null, and nothing is unequal to null.
	rows, err := s.readers.QueryContext(ctx, `
		SELECT receiver, key, position FROM held WHERE stream = '' AND receiver NOT IN (SELECT value FROM json_each(?))`, jsonColumn{append([]string{}, except...)})
	return held, s.read("read the occurrences in groups", each(rows, err, func(rows *sql.Rows) error {
		var receiver, key string
		var position uint64
		err := rows.Scan(&receiver, &key, &position)
		if held[receiver] == nil {
			held[receiver] = Held{}
		}
		held[receiver][key] = position
		return err
	}))
}

// LowestHeld returns the lowest position of the occurrences of HeldCounts, for those of the
// receivers that have any.
func (s *Store) LowestHeld(ctx context.Context, receivers []string) (map[string]uint64, error) {
	lowest := map[string]uint64{}
	rows, err := s.readers.QueryContext(ctx, `
		SELECT value, (SELECT min(position) FROM held WHERE receiver = value AND stream = '') AS lowest FROM json_each(?) WHERE lowest IS NOT NULL`, jsonColumn{receivers})
	return lowest, s.read("read the occurrences in groups", each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		var position uint64
		err := rows.Scan(&receiver, &position)
		lowest[receiver] = position
		return err
	}))
}

// heldPart is a row of held.
type heldPart struct {
	receiver, key, stream string
	position              uint64
	entry                 sql.Null[uint64]
}

// dropHeld removes Events that another leader delivered from groups and from messages of
// groups. If a message loses a part, the message is removed and its other parts wait in
// their group again.
func (s *Store) dropHeld(ctx context.Context, delivered DeliveredOffsets) error {
	return s.write(ctx, "drop delivered occurrences of groups", func(ctx context.Context, tx *tx) error {
		return tx.dropDeliveredParts(ctx, delivered.ofEvents())
	})
}

func (tx *tx) dropDeliveredParts(ctx context.Context, delivered offsets) error {
	broken, err := tx.dropDelivered(ctx, delivered)
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

// dropDelivered removes the parts that were delivered. It returns the messages they were
// in, with their receivers.
func (tx *tx) dropDelivered(ctx context.Context, delivered offsets) (broken map[uint64]string, err error) {
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
