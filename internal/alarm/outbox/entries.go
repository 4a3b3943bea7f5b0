package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// Entry is a message for one receiver.
type Entry struct {
	// ID is set by Commit. Entries of later commits have higher IDs.
	ID int64
	// Receiver is the key of the receiver.
	Receiver string
	// Alarm is the alarm that Counts attribute the entry to.
	Alarm string
	// Key makes a replay harmless: an entry is ignored while the receiver has another one
	// with the same key.
	Key string
	// Subject is what the entry is about. Entries of a receiver with the same subject are
	// sent in order. The subject of a group's message is the group.
	Subject string
	// Position is the resourceVersion of the occurrence.
	Position uint64
	// Stream is the stream that Position belongs to, empty for Events. Commit sets it: see Change.Stream.
	Stream string
	// Count is the number of occurrences in the entry.
	Count int64
	// CreatedAt is stored with microseconds and returned in UTC.
	CreatedAt time.Time
	// Budget names the space that the entry uses: see [Store.Usage].
	Budget string
	// Payload is the content of the message. Commit stores it once for neighboring entries
	// of one alarm and position.
	Payload []byte
	// Member makes the entry wait in a group until Release creates the message. Nil is no
	// group.
	Member *Membership
}

const selectEntries = `
	SELECT entry.id, receiver, alarm, key, position, count, created_at, coalesce(data, x''), group_id
	FROM entry LEFT JOIN content ON content.id = entry.content `

// selectPending selects from a lane: ?4.
func selectPending(lane int64) string {
	return selectEntries + `
	WHERE receiver = ?1 AND ` + inLane(lane, "?4") + ` AND entry.id > max(?2, coalesce((SELECT last FROM attempt WHERE receiver = ?1 AND lane = ?4), 0))
	ORDER BY entry.id LIMIT ?3`
}

const selectOldest = `SELECT created_at FROM entry ORDER BY id LIMIT 1`

// Oldest returns when the oldest entry of all receivers was created, zero if there is
// none.
func (s *Store) Oldest(ctx context.Context) (since time.Time, err error) {
	rows, err := s.readers.QueryContext(ctx, selectOldest)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(timestamp{&since}) })
	return since, s.read("read the oldest entry", err)
}

// Pending returns the oldest entries of a lane that are not prepared: at most limit entries
// with an ID above after, oldest first.
func (s *Store) Pending(ctx context.Context, receiver string, lane, after int64, limit int) ([]Entry, error) {
	return s.entries(ctx, selectPending(lane), receiver, after, limit, lane)
}

// aboutWindow is the number of entries that PendingAbout searches, which limits its time.
const aboutWindow = 5_000

// selectPendingAbout selects the entries with the subject of an entry: ?4. Only entry_by_age is
// read of the others.
const (
	selectPendingAbout = selectEntries + "WHERE entry.id IN (" + selectAbout + ") ORDER BY entry.id LIMIT ?3"
	selectAbout        = `
		SELECT id FROM (SELECT id, subject FROM entry WHERE receiver = ?1 AND aside = 0 AND id >= ?4 ORDER BY id LIMIT ?5)
		WHERE id > ?2 AND subject = (SELECT subject FROM entry WHERE id = ?4)`
)

// PendingAbout is Pending for entries of the main lane with the subject of the entry first, the
// oldest pending one. It finds those among the next 5,000 entries.
func (s *Store) PendingAbout(ctx context.Context, receiver string, first, after int64, limit int) ([]Entry, error) {
	return s.entries(ctx, selectPendingAbout, receiver, after, limit, first, aboutWindow)
}

func (s *Store) entries(ctx context.Context, query string, args ...any) ([]Entry, error) {
	var entries []Entry
	groups := map[int]string{}
	rows, err := s.readers.QueryContext(ctx, query, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		var e Entry
		var group string
		err := rows.Scan(&e.ID, &e.Receiver, &e.Alarm, &e.Key, &e.Position, &e.Count, timestamp{&e.CreatedAt}, &e.Payload, &group)
		if group != "" {
			groups[len(entries)] = group
		}
		entries = append(entries, e)
		return err
	})
	for i, group := range groups {
		if err == nil {
			entries[i].Payload, err = s.composeMessage(ctx, &entries[i], group)
		}
	}
	return entries, s.read("read pending entries", err)
}

// selection selects entries of a receiver (?1) whose column is at most a bound (?2). also
// is a further condition, with args as ?3 and so on.
type selection struct {
	column, also string
	args         []any
}

var (
	mainLane  = selection{column: "id", also: " AND aside = 0"}
	sideLanes = selection{column: "subject", also: " AND aside = 1"}
	// byPosition selects entries of the main lane. dropAwaited removes those of other lanes.
	byPosition = selection{column: "position", also: " AND aside = 0 AND group_id = ''" + // dropHeld removes messages of groups
		" AND NOT EXISTS (SELECT 1 FROM awaited WHERE awaited.entry = entry.id)"}
	// afterReset is byPosition without what waited at a reset.
	afterReset = selection{column: "position", also: byPosition.also + fmt.Sprint(" AND position > ", alarm.ResetPosition)}
	// exactID selects the entry whose ID is the bound.
	exactID = selection{column: "id", also: " AND id = ?2"}
)

// unprepared selects the entries of a lane that are not prepared.
func unprepared(lane int64) selection {
	return selection{column: "id", args: []any{lane},
		also: " AND " + inLane(lane, "?3") + " AND id > coalesce((SELECT last FROM attempt WHERE receiver = ?1 AND lane = ?3), 0)"}
}

// selection selects the entries of the message, up to the ID in Last.
func (a *Attempt) selection() selection {
	switch {
	case a.Lane != MainLane:
		return exactID
	case len(a.Picked) > 0:
		return selection{column: "id", also: " AND aside = 0 AND id IN (SELECT value FROM json_each(?3))", args: []any{a.picked()}}
	default:
		return mainLane
	}
}

func (s selection) where() string {
	return " FROM entry WHERE receiver = ?1 AND " + s.column + " <= ?2" + s.also
}

func deleteEntries(s selection) string { return "DELETE" + s.where() }

// partsOf is the condition for the parts of the selected messages of groups.
func partsOf(s selection) string { return "entry IN (SELECT id" + s.where() + " AND group_id <> '')" }

func selectAlarmCounts(s selection) string {
	return "SELECT alarm, sum(count)" + s.where() + " GROUP BY alarm"
}

// nth returns the query for the column of the last entry of the first chunk.
func (s selection) nth() string {
	return "SELECT " + s.column + s.where() + " ORDER BY " + s.column + fmt.Sprintf(" LIMIT 1 OFFSET %d", chunk-1)
}

// chunk is about the number of entries that one transaction removes. It limits how long
// other writes wait, and how far the WAL grows. Removing 1,000 entries takes about as
// long as committing them.
const chunk = 1_000

// step is a part of a removal, in a transaction of its own.
type step func(ctx context.Context, tx *tx) (removed Counts, done bool, err error)

// steps runs step until it is done and returns the sum of the removed counts. It does not
// wait for the disk, so that the disk does not limit the speed of delivery. After a loss
// of power, some messages are sent twice.
func (s *Store) steps(ctx context.Context, what string, step step) (Counts, error) {
	counts := Counts{}
	for done := false; !done; {
		var removed Counts
		err := s.writeLazily(ctx, what, func(ctx context.Context, tx *tx) (err error) {
			removed, done, err = step(ctx, tx)
			return err
		})
		if err != nil {
			return counts, err
		}
		counts.add(removed)
	}
	return counts, nil
}

// remove deletes a chunk of the selected entries. It returns their counts, and whether
// they were the last.
func (tx *tx) remove(ctx context.Context, receiver string, which selection, upTo uint64) (counts Counts, done bool, err error) {
	err = tx.row(ctx, which.nth(), append([]any{receiver, upTo}, which.args...)...).Scan(&upTo)
	if errors.Is(err, sql.ErrNoRows) {
		done, err = true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if counts, err = tx.alarmCounts(ctx, receiver, which, upTo); err != nil {
		return nil, false, err
	}
	return counts, done, tx.delete(ctx, receiver, which, upTo)
}

func (tx *tx) delete(ctx context.Context, receiver string, which selection, upTo uint64) error {
	args := append([]any{receiver, upTo}, which.args...)
	if _, err := tx.deleteHeld(ctx, receiver, partsOf(which), args...); err != nil {
		return err
	}
	deleted, err := tx.exec(ctx, deleteEntries(which), args...)
	if err != nil {
		return err
	}
	tx.freed = tx.freed || deleted > 0
	return tx.removed(ctx, receiver, deleted)
}

const selectLowest = `SELECT min(position) FROM entry WHERE receiver = ? AND aside = 0`

// removed updates the backlog of a receiver after entries left it or the main lane.
func (tx *tx) removed(ctx context.Context, receiver string, deleted int64) error {
	var lowest sql.Null[uint64]
	if err := tx.row(ctx, selectLowest, receiver).Scan(&lowest); err != nil {
		return err
	}
	tx.after(func(m *memory) { m.removed(receiver, deleted, lowest.V) })
	return nil
}

func (tx *tx) alarmCounts(ctx context.Context, receiver string, which selection, upTo uint64) (Counts, error) {
	counts := Counts{}
	rows, err := tx.query(ctx, selectAlarmCounts(which), append([]any{receiver, upTo}, which.args...)...)
	return counts, counts.scan(rows, err)
}

// scan reads the rows of a query that returns a number for each alarm.
func (c Counts) scan(rows *sql.Rows, err error) error {
	return each(rows, err, func(rows *sql.Rows) error {
		var alarm string
		var n int64
		err := rows.Scan(&alarm, &n)
		c[alarm] = n
		return err
	})
}

// Counts are the numbers of occurrences that left the outbox, by Entry.Alarm. Counts
// returned with an error contain what was removed before the error.
type Counts map[string]int64

func (c Counts) add(other Counts) {
	for alarm, count := range other {
		c[alarm] += count
	}
}

// maxID is the bound that selects all entries. SQLite's integers are signed.
const maxID uint64 = math.MaxInt64

// DropReceiver removes all entries, prepared messages, groups and past digests of a
// receiver.
func (s *Store) DropReceiver(ctx context.Context, receiver string) (Counts, error) {
	return s.steps(ctx, "drop a receiver", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		if err := tx.deletePrepared(ctx, `receiver = ?`, receiver); err != nil {
			return nil, false, err
		}
		if _, err := tx.exec(ctx, `DELETE FROM digested WHERE receiver = ?`, receiver); err != nil {
			return nil, false, err
		}
		if _, err := tx.exec(ctx, `DELETE FROM awaited WHERE receiver = ? AND parked IS NOT NULL`, receiver); err != nil {
			return nil, false, err
		}
		held, err := tx.dropHeld(ctx, receiver)
		if err != nil {
			return nil, false, err
		}
		counts, done, err := tx.removeAll(ctx, receiver)
		if err != nil {
			return nil, false, err
		}
		held.add(counts)
		return held, done, tx.countEach(ctx, "", held, dropped)
	})
}

// removeAll removes a chunk of the entries of a receiver.
func (tx *tx) removeAll(ctx context.Context, receiver string) (Counts, bool, error) {
	counts, done, err := tx.remove(ctx, receiver, mainLane, maxID)
	if !done || err != nil {
		return counts, false, err
	}
	others, done, err := tx.remove(ctx, receiver, sideLanes, maxID)
	counts.add(others)
	return counts, done, err
}

// dropHeld removes the groups of a receiver and the occurrences that wait in them.
func (tx *tx) dropHeld(ctx context.Context, receiver string) (Counts, error) {
	counts, err := tx.deleteHeld(ctx, receiver, `receiver = ? AND entry IS NULL`, receiver)
	if err != nil {
		return nil, err
	}
	rows, err := tx.query(ctx, `SELECT budget, alarm, count(*), sum(bytes) FROM open_group WHERE receiver = ? GROUP BY budget, alarm`, receiver)
	err = each(rows, err, func(rows *sql.Rows) error {
		var budget, alarm string
		var n, bytes int64
		err := rows.Scan(&budget, &alarm, &n, &bytes)
		tx.after(func(m *memory) {
			m.groups.addIn(budget, alarm, -n)
			m.addState(budget, -bytes)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	_, err = tx.exec(ctx, `DELETE FROM open_group WHERE receiver = ?`, receiver)
	return counts, err
}

// DropOlderThan removes the oldest pending entries of a lane, up to the first that was
// created at t or later. A prepared message stays until [Store.Acknowledge].
func (s *Store) DropOlderThan(ctx context.Context, receiver string, lane int64, t time.Time) (Counts, error) {
	return s.steps(ctx, "drop old entries", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		last, err := tx.lastBefore(ctx, receiver, lane, t)
		if last == 0 || err != nil {
			return nil, true, err
		}
		if err := tx.putAccepted(ctx, receiver, unprepared(lane), last, sql.Null[int64]{}); err != nil {
			return nil, false, err
		}
		counts, done, err := tx.remove(ctx, receiver, unprepared(lane), last)
		if err != nil {
			return nil, false, err
		}
		return counts, done, tx.countEach(ctx, receiver, counts, dropped)
	})
}

func selectOld(lane int64) string {
	return "SELECT id, created_at" + unprepared(lane).where() + fmt.Sprintf(" ORDER BY id LIMIT %d", chunk+1)
}

// lastBefore returns the ID of the last entry before the first one that was created at t
// or later. It reads one entry more than a chunk, and returns 0 if there is no such
// entry.
func (tx *tx) lastBefore(ctx context.Context, receiver string, lane int64, t time.Time) (last uint64, err error) {
	rows, err := tx.query(ctx, selectOld(lane), receiver, maxID, lane)
	err = each(rows, err, func(rows *sql.Rows) error {
		var id uint64
		var created time.Time
		if err := rows.Scan(&id, timestamp{&created}); err != nil {
			return err
		}
		if !created.Before(t) {
			return errStop
		}
		last = id
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return last, err
}

var errStop = errors.New("stop")

// dropDelivered removes the entries that another leader delivered. If a prepared message
// loses an entry, its other entries are pending again. dropHeld does the same for groups.
func (s *Store) dropDelivered(ctx context.Context, delivered DeliveredOffsets) error {
	for receiver := range s.Snapshot().Backlogs {
		_, err := s.steps(ctx, "drop delivered entries", func(ctx context.Context, tx *tx) (Counts, bool, error) {
			which := byPosition
			if delivered.mayLackReset(receiver) {
				which = afterReset
			}
			removed, done, err := tx.remove(ctx, receiver, which, delivered.Offset(receiver))
			if err != nil {
				return nil, false, err
			}
			return removed, done, tx.dropBrokenAttempts(ctx, receiver)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropBrokenAttempts removes the attempts of a receiver that miss an entry.
func (tx *tx) dropBrokenAttempts(ctx context.Context, receiver string) error {
	const inMainLane = `SELECT count(*) FROM entry WHERE receiver = ?1 AND id <= attempt.last AND aside = 0`
	const ofPicked = `SELECT count(*) FROM entry WHERE aside = 0 AND id IN (SELECT value FROM json_each(attempt.picked))`
	const inOther = `SELECT count(*) FROM entry WHERE id = attempt.last`
	return tx.deletePrepared(ctx, `receiver = ?1 AND entries <> iif(lane <> -1, (`+inOther+`), iif(picked = 'null', (`+inMainLane+`), (`+ofPicked+`)))`, receiver)
}
