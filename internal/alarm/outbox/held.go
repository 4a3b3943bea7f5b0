package outbox

import (
	"context"
	"database/sql"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// deleteHeld deletes occurrences of a receiver that a condition selects. It returns their counts.
func (tx *tx) deleteHeld(ctx context.Context, receiver, where string, args ...any) (Counts, error) {
	gone, _, err := tx.deleteHeldUpTo(ctx, receiver, where, args...)
	return gone, err
}

// deleteHeldUpTo also returns the highest position of the Events.
func (tx *tx) deleteHeldUpTo(ctx context.Context, receiver, where string, args ...any) (gone Counts, highest uint64, err error) {
	var all int64
	sent := false
	gone = Counts{}
	rows, err := tx.query(ctx, `DELETE FROM held WHERE `+where+` RETURNING alarm, count, entry, tenant, bytes, iif(stream = '', position, 0)`, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		var subject, tenant string
		var count, bytes int64
		var entry sql.Null[uint64]
		var position uint64
		err := rows.Scan(&subject, &count, &entry, &tenant, &bytes, &position)
		highest = max(highest, position)
		tx.space.AddMessage(tenant, receiver, -bytes)
		gone[subject] += count
		all++
		sent = sent || entry.Valid
		return err
	})
	tx.after(func(m *memory) {
		m.addHeld(receiver, -all)
		if sent {
			m.sentGroup()
		}
	})
	return gone, highest, err
}

// hold stores an entry until the message of its group is due. An entry that already
// waits, or is in a message, is not stored again.
func (tx *tx) hold(ctx context.Context, e *Entry, s *group.State, p *group.Part, content int64) (bool, error) {
	n, err := tx.exec(ctx, `
		INSERT INTO held (receiver, key, group_id, alarm, position, count, created_at, due, release_at, content, tenant, bytes, since, total, first, resolved, ends, stream)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17) ON CONFLICT (receiver, key) DO NOTHING`,
		e.Receiver, e.Key, e.Member.Group, e.Alarm, e.Position, e.Count, micros(e.CreatedAt), micros(p.Due), content, e.Tenant, e.Bytes(),
		micros(s.Since), s.Total, p.First, p.Resolves, e.Member.Event.Kind == group.End, e.Stream)
	if n > 0 {
		tx.after(func(m *memory) { m.addHeld(e.Receiver, 1) })
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
