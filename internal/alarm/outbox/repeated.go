package outbox

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
)

// repeatedBytes returns how many bytes a message counts for that is sent again. It is rounded up
// from what SQLite uses for the row and its indexes.
func repeatedBytes(receiver string, data []byte) int64 {
	if len(data) == 0 {
		return 0
	}
	return int64(512 + 6*len(receiver) + 2*len(data))
}

// remember keeps the last message of a group that is open for a receiver, to be sent again.
// Without data, it removes the message. If the tenant has no space, an earlier message stays.
func (tx *tx) remember(ctx context.Context, receiver, id string, data []byte, sent time.Time) error {
	g, known, err := tx.group(ctx, receiver, id)
	if !known || err != nil || len(data) == 0 && !g.last.Valid {
		return err
	}
	size := repeatedBytes(receiver, data)
	added := size - g.repeated
	if !tx.space.Fits(ledger.Groups, g.tenant, added, leftByRepeated) {
		return nil
	}
	tx.space.Add(ledger.Groups, g.tenant, added)
	last := g.last
	if len(data) == 0 {
		_, err = tx.exec(ctx, `DELETE FROM content WHERE id = ?`, last.V)
		last.Valid = false
	} else {
		last.V, err = tx.putMessage(ctx, last, data)
		last.Valid = true
	}
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE open_group SET last = ?, repeated = ?, sent = ?, bytes = bytes + ? WHERE receiver = ? AND id = ?`,
		last, size, micros(sent), added, receiver, id)
	return err
}

// keep removes the message of a group that ended before an entry. If another leader sent the entry
// to a receiver that repeats, it keeps what a message says about it.
// The message that was sent is not known, because it can have had other parts.
func (tx *tx) keep(ctx context.Context, e *Entry, s *group.State, do *group.Actions) error {
	if do.Forget {
		if err := tx.remember(ctx, e.Receiver, e.Member.Group, nil, time.Time{}); err != nil {
			return err
		}
	}
	if !do.Remember || !e.Member.Repeats || e.Payload == nil {
		return nil
	}
	of := Group{ID: e.Member.Group, By: e.Member.By, Since: s.Since, Total: s.Total}
	data, err := tx.compose(of, []Entry{*e}, e.Count)
	if err != nil {
		return err
	}
	return tx.remember(ctx, e.Receiver, e.Member.Group, data, time.Time{})
}

// Repeated is a message that is kept to be sent again.
type Repeated struct {
	Group string
	// Ended is true if the group ended, but was not resolved.
	Ended bool
	// Data is GroupState.Remember, or the result of the Composer.
	Data []byte
}

// clockMargin is by how much a time can be in the future before the clock counts as set back.
const clockMargin = time.Minute

// selectRepeated selects messages of groups that are not resolved. A group ended if it is over,
// nothing waits, and no state lasts. A message of the group that is not
// acknowledged says more than the last one.
const selectRepeated = `
	SELECT g.id, over < ?3 AND NOT EXISTS (
		SELECT 1 FROM held INDEXED BY held_by_group WHERE held.receiver = ?1 AND held.group_id = g.id AND entry IS NULL)
		AND NOT EXISTS (SELECT 1 FROM lasting WHERE fired AND lasting.group_id = g.id), data
	FROM open_group g INDEXED BY group_by_sent JOIN content ON content.id = g.last
	WHERE g.receiver = ?1 AND g.last IS NOT NULL AND sent > ?5 AND sent <= ?2 AND NOT g.resolved
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_of_message WHERE held.receiver = ?1 AND held.group_id = g.id AND entry IS NOT NULL)
	ORDER BY sent LIMIT ?4`

// selectAhead selects a row if messages were last sent after a time.
const selectAhead = `SELECT 1 FROM open_group g INDEXED BY group_by_sent
	WHERE g.receiver = ?1 AND g.last IS NOT NULL AND sent > ?2 AND NOT g.resolved
	AND NOT EXISTS (SELECT 1 FROM held INDEXED BY held_of_message WHERE held.receiver = ?1 AND held.group_id = g.id AND entry IS NOT NULL) LIMIT 1`

// Repeated returns the last messages of the groups of a receiver that were last sent at this
// time or before. They are at most limit, with at most size bytes, but one is always returned.
// Those that were last sent in the future come first: the clock was set back.
// It returns none of a group that is resolved, or for which a message waits. A group does not
// end before the Events of that time are read.
func (s *Store) Repeated(ctx context.Context, receiver string, sent time.Time, limit, size int) (all []Repeated, err error) {
	full := false
	from, to, ahead := int64(-1), micros(sent), micros(s.clock.Now().Add(clockMargin))
	rows, err := s.readers.QueryContext(ctx, selectAhead, receiver, ahead)
	err = each(rows, err, func(*sql.Rows) error {
		from, to = ahead, math.MaxInt64
		return nil
	})
	if err != nil {
		return nil, s.read("read messages to repeat", err)
	}
	rows, err = s.readers.QueryContext(ctx, selectRepeated, receiver, to, s.readUpTo.Load(), limit, from)
	return all, s.read("read messages to repeat", each(rows, err, func(rows *sql.Rows) error {
		var r Repeated
		err := rows.Scan(&r.Group, &r.Ended, &r.Data)
		size -= len(r.Data)
		if full = full || len(all) > 0 && size < 0; !full {
			all = append(all, r)
		}
		return err
	}))
}

// SetRepeated records that messages were sent again at a time. It removes those of groups that
// ended.
func (s *Store) SetRepeated(ctx context.Context, receiver string, all []Repeated, sent time.Time) error {
	return s.writeLazily(ctx, "record repeated messages", func(ctx context.Context, tx *tx) (err error) {
		for i := 0; i < len(all) && err == nil; i++ {
			if all[i].Ended {
				err = tx.remember(ctx, receiver, all[i].Group, nil, time.Time{})
			} else {
				_, err = tx.exec(ctx, `UPDATE open_group SET sent = ? WHERE receiver = ? AND id = ? AND last IS NOT NULL`, micros(sent), receiver, all[i].Group)
			}
		}
		return err
	})
}

// CaughtUp reports whether all Events that happened before a time are committed, and nothing
// is read again after a takeover. See [Store.ReadUpTo].
func (s *Store) CaughtUp(t time.Time) bool {
	state := s.State()
	return s.readUpTo.Load() >= t.UnixMicro() && state.Delivered.PassedBy(state.Position)
}
