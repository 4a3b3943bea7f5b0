package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/group"
)

// lastResolves is whether the last of several parts of a group resolves it. A resolution can have
// the same total as the occurrence before it.
const lastResolves = `max(total * 2 + resolved) % 2`

const selectLastMessage = `
	SELECT ` + lastResolves + ` FROM held INDEXED BY held_of_message
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NOT NULL GROUP BY entry ORDER BY entry DESC LIMIT 1`

// lastMessage returns the newest message of a group that is not finished, nil if there is none. It
// knows only whether that resolves the group.
func (tx *tx) lastMessage(ctx context.Context, g groupKey) (*group.Part, error) {
	var last group.Part
	err := tx.row(ctx, selectLastMessage, g.receiver, g.group).Scan(&last.Resolves)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &last, err
}

const updateHoldBack = `
	UPDATE held INDEXED BY held_by_group SET release_at = nullif(?4, 0)
	WHERE receiver = ?1 AND group_id = ?2 AND entry IS NULL AND due <= ?3 AND release_at <= ?3 AND NOT ends`

// holdBack lets what is due wait until a time, or until the last message is finished.
// It does not hold back an end, which is due when the Events before it are read.
func (tx *tx) holdBack(ctx context.Context, g groupKey, now, until time.Time) error {
	_, err := tx.exec(ctx, updateHoldBack, g.receiver, g.group, micros(now), micros(until))
	return err
}

const (
	// selectFuture selects the groups whose last occurrence is in the future, and that wait for
	// then.
	selectFuture = `
		SELECT receiver, id FROM open_group WHERE newest > ?1 AND EXISTS (
			SELECT 1 FROM held INDEXED BY held_by_group
			WHERE held.receiver = open_group.receiver AND held.group_id = open_group.id AND entry IS NULL AND due > ?1 AND NOT ends)`

	updateEarlierHeld = `
		UPDATE held SET due = due - ?3, release_at = release_at - ?3 WHERE receiver = ?1 AND group_id = ?2 AND NOT ends`
)

// moveFuture moves the groups that wait for a time in the future, because the clock was set back.
func (tx *tx) moveFuture(ctx context.Context, now time.Time) error {
	var all []groupKey
	rows, err := tx.query(ctx, selectFuture, micros(now.Add(clockMargin)))
	err = each(rows, err, func(rows *sql.Rows) error {
		var g groupKey
		err := rows.Scan(&g.receiver, &g.group)
		all = append(all, g)
		return err
	})
	for i := 0; i < len(all) && err == nil; i++ {
		var by time.Duration
		err = tx.changeGroup(ctx, all[i].receiver, all[i].group, func(s *group.State) { by = s.SetBack(now) })
		if err == nil {
			_, err = tx.exec(ctx, updateEarlierHeld, all[i].receiver, all[i].group, by.Microseconds())
		}
	}
	return err
}

// releaseAgain decides again about all that is held back. It is for a new process, and after the
// clock was set back. A group would wait long for an interval that began in the future.
func (tx *tx) releaseAgain(ctx context.Context, now time.Time) error {
	if _, err := tx.exec(ctx, `UPDATE open_group SET accepted = ?1 WHERE accepted > ?1`, micros(now)); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `UPDATE held SET release_at = due WHERE entry IS NULL AND release_at IS NOT due`)
	return err
}

// selectMessages selects the groups with messages among some entries. The second column is whether the
// last message resolves its group.
const selectMessages = `
	WITH message AS (
		SELECT group_id, max(id) AS id FROM entry WHERE id IN (SELECT value FROM json_each(?1)) AND group_id <> '' GROUP BY group_id)
	SELECT group_id, coalesce((SELECT ` + lastResolves + ` FROM held WHERE entry = message.id), 0) FROM message`

// putAccepted records that the receiver accepted the messages of groups among some entries. The
// time is null if they are dropped.
func (tx *tx) putAccepted(ctx context.Context, receiver string, entries []int64, accepted sql.Null[int64]) error {
	resolves := map[string]bool{} // by group
	rows, err := tx.query(ctx, selectMessages, jsonColumn{entries})
	err = each(rows, err, func(rows *sql.Rows) error {
		var id string
		var last bool
		err := rows.Scan(&id, &last)
		resolves[id] = last
		return err
	})
	var at time.Time
	if accepted.Valid {
		at = time.UnixMicro(accepted.V).UTC()
	}
	for id, last := range resolves {
		if err == nil {
			err = tx.changeGroup(ctx, receiver, id, func(s *group.State) { s.Accept(last, at) })
		}
	}
	return err
}

// Sent returns a channel that receives a value after a message of a group was removed. The
// next message of the group can then be due.
func (s Groups) Sent() <-chan struct{} { return s.memory.groupSent }
