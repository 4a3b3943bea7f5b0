package outbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
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
	// Late is true if the entry is not sent in the order of positions. The checkpoint then lists it by
	// key. Commit sets it.
	Late bool
	// Count is the number of occurrences in the entry.
	Count int64
	// CreatedAt is stored with microseconds and returned in UTC.
	CreatedAt time.Time
	// Tenant names whose space the entry uses, see [Store.Space], and in whose turn it is sent: see
	// [Store.NextTenant].
	Tenant string
	// Payload is the content of the message. Commit stores it once for neighboring entries
	// of one alarm and position.
	Payload []byte
	// Member makes the entry wait in a group until Release creates the message. Nil is no
	// group.
	Member *Membership
}

const selectEntries = `
	SELECT entry.id, receiver, alarm, key, position, count, created_at, tenant, coalesce(data, x''), group_id
	FROM entry LEFT JOIN content ON content.id = entry.content `

// unprepared is the condition for the entries of a receiver (?1) that are in no prepared message.
const unprepared = `entry.id NOT IN (SELECT value FROM attempt, json_each(attempt.entries) WHERE attempt.receiver = ?1)`

// selectPending selects from a lane: ?4.
func selectPending(lane int64) string {
	return selectEntries + `
	WHERE receiver = ?1 AND ` + inLane(lane, "?4") + ` AND entry.id > ?2 AND ` + unprepared + ` ORDER BY entry.id LIMIT ?3`
}

// selectOfTenant selects those of a tenant from the main lane.
const selectOfTenant = selectEntries + `
	WHERE receiver = ?1 AND aside = 0 AND entry.tenant = ?4 AND entry.id > ?2 AND ` + unprepared + ` ORDER BY entry.id LIMIT ?3`

const selectOldest = `SELECT created_at FROM entry ORDER BY id LIMIT 1`

// Oldest returns when the oldest entry of all receivers was created, zero if there is
// none.
func (s *Store) Oldest(ctx context.Context) (since time.Time, err error) {
	rows, err := s.readers.QueryContext(ctx, selectOldest)
	err = each(rows, err, func(rows *sql.Rows) error { return rows.Scan(timestamp{&since}) })
	return since, s.read("read the oldest entry", err)
}

// Query selects pending entries of a lane.
type Query struct {
	Receiver string
	Lane     int64
	// After is an ID, 0 for the first entries. Limit is the maximum number.
	After int64
	Limit int
	// Tenant, if set, is whose entries of the main lane are returned.
	Tenant *string
	// About is the ID of the oldest pending entry of the main lane with its tenant. Only entries of the
	// tenant with its subject are returned. They are searched among the next 5,000 of the tenant. If it
	// is 0, all are returned.
	About int64
}

// Pending returns entries that are not prepared, the oldest first.
func (s *Store) Pending(ctx context.Context, q Query) ([]Entry, error) {
	switch {
	case q.About > 0:
		return s.entries(ctx, selectPendingAbout, q.Receiver, q.After, q.Limit, q.About, aboutWindow)
	case q.Tenant != nil:
		return s.entries(ctx, selectOfTenant, q.Receiver, q.After, q.Limit, *q.Tenant)
	default:
		return s.entries(ctx, selectPending(q.Lane), q.Receiver, q.After, q.Limit, q.Lane)
	}
}

const (
	selectTenantAfter = `SELECT min(tenant) FROM entry WHERE receiver = ?1 AND aside = 0 AND tenant > ?2`
	selectFirstTenant = `SELECT min(tenant) FROM entry WHERE receiver = ?1 AND aside = 0`
)

// NextTenant returns the tenant with entries in the main lane whose turn is after that of another one.
// After the last tenant comes the first. It returns false if there is none.
func (s *Store) NextTenant(ctx context.Context, receiver, after string) (tenant string, found bool, err error) {
	var next sql.Null[string]
	err = s.readers.QueryRowContext(ctx, selectTenantAfter, receiver, after).Scan(&next)
	if !next.Valid && err == nil {
		err = s.readers.QueryRowContext(ctx, selectFirstTenant, receiver).Scan(&next)
	}
	return next.V, next.Valid, s.read("read the next tenant", err)
}

// aboutWindow is the number of entries that a Query with About searches, which limits its time.
const aboutWindow = 5_000

// selectPendingAbout selects the entries with the tenant and the subject of an entry: ?4. Only
// entry_by_tenant is read of the others.
const (
	selectPendingAbout = selectEntries + "WHERE entry.id IN (" + selectAbout + ") ORDER BY entry.id LIMIT ?3"
	selectAbout        = `
		SELECT id FROM (
			SELECT id, subject FROM entry
			WHERE receiver = ?1 AND aside = 0 AND tenant = (SELECT tenant FROM entry WHERE id = ?4) AND id >= ?4 ORDER BY id LIMIT ?5)
		WHERE id > ?2 AND subject = (SELECT subject FROM entry WHERE id = ?4)`
)

// Entries returns the entries with these IDs that exist, the oldest first.
func (s *Store) Entries(ctx context.Context, ids []int64) ([]Entry, error) {
	return s.entries(ctx, selectByID, jsonColumn{ids})
}

const selectByID = selectEntries + `WHERE entry.id IN (SELECT value FROM json_each(?1)) ORDER BY entry.id`

func (s *core) entries(ctx context.Context, query string, args ...any) ([]Entry, error) {
	var entries []Entry
	groups := map[int]string{}
	rows, err := s.readers.QueryContext(ctx, query, args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		var e Entry
		var group string
		err := rows.Scan(&e.ID, &e.Receiver, &e.Alarm, &e.Key, &e.Position, &e.Count, timestamp{&e.CreatedAt}, &e.Tenant, &e.Payload, &group)
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

// chunk is the number of entries that one transaction removes. It limits how long
// other writes wait, and how far the WAL grows. Removing 1,000 entries takes about as
// long as committing them.
const chunk = 1_000

// step is a part of a removal, in a transaction of its own.
type step func(ctx context.Context, tx *tx) (removed Counts, done bool, err error)

// steps runs step until it is done and returns the sum of the removed counts. It does not
// wait for the disk, so that the disk does not limit the speed of delivery. After a loss
// of power, some messages are sent twice.
func (s *core) steps(ctx context.Context, what string, step step) (Counts, error) {
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

// ids runs a query for IDs of entries, which has a limit.
func (tx *tx) ids(ctx context.Context, query string, args ...any) (ids []int64, err error) {
	rows, err := tx.query(ctx, query, args...)
	return ids, each(rows, err, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
}

const (
	deleteEntries = `DELETE FROM entry WHERE id IN (SELECT value FROM json_each(?)) RETURNING alarm, count, tenant, bytes, iif(stream = '', position, 0)`
	partsOf       = `entry IN (SELECT value FROM json_each(?))`
)

// remove deletes entries of a receiver, and the parts of those that are messages of groups. The
// other entries of a prepared message are then pending again. It returns the counts of the entries.
func (tx *tx) remove(ctx context.Context, receiver string, ids []int64) (Counts, error) {
	_, highest, err := tx.deleteHeldUpTo(ctx, receiver, partsOf, jsonColumn{ids})
	if err != nil {
		return nil, err
	}
	counts, deleted := Counts{}, int64(0)
	rows, err := tx.query(ctx, deleteEntries, jsonColumn{ids})
	err = each(rows, err, func(rows *sql.Rows) error {
		var alarm, tenant string
		var count, bytes int64
		var position uint64
		err := rows.Scan(&alarm, &count, &tenant, &bytes, &position)
		counts[alarm] += count
		deleted++
		highest = max(highest, position)
		tx.space.AddMessage(tenant, receiver, -bytes)
		return err
	})
	if deleted == 0 || err != nil {
		return counts, err
	}
	tx.Freed = true
	if err := tx.deletePrepared(ctx, deleteBroken, receiver, jsonColumn{ids}); err != nil {
		return nil, err
	}
	return counts, tx.removed(ctx, receiver, deleted, highest)
}

// drop removes entries that are not delivered, and counts them.
func (tx *tx) drop(ctx context.Context, receiver string, ids []int64) (Counts, error) {
	if err := tx.putAccepted(ctx, receiver, ids, sql.Null[int64]{}); err != nil {
		return nil, err
	}
	counts, err := tx.remove(ctx, receiver, ids)
	if err != nil {
		return nil, err
	}
	return counts, tx.countEach(ctx, receiver, counts, dropped)
}

const (
	selectLowest    = `SELECT min(position) FROM entry WHERE receiver = ? AND late = 0 AND group_id = ''`
	updateOvertaken = `
		UPDATE entry SET late = 1 WHERE id IN (
			SELECT id FROM entry WHERE receiver = ?1 AND late = 0 AND group_id = '' AND position < ?2 ORDER BY position LIMIT ?3)`
)

// removed updates the backlog of a receiver after entries left it, up to a position, or are late. Those
// before that position are late now, at most a chunk. Otherwise, what left would be after the delivered
// offset.
func (tx *tx) removed(ctx context.Context, receiver string, deleted int64, highest uint64) error {
	var lowest sql.Null[uint64]
	if err := tx.row(ctx, selectLowest, receiver).Scan(&lowest); err != nil {
		return err
	}
	if lowest.V < highest && lowest.Valid {
		if _, err := tx.exec(ctx, updateOvertaken, receiver, highest, chunk); err != nil {
			return err
		}
		return tx.removed(ctx, receiver, deleted, 0)
	}
	tx.after(func(m *memory) { m.removed(receiver, deleted, lowest.V) })
	return nil
}

const selectOfReceiver = `SELECT id FROM entry WHERE receiver = ?1 LIMIT ?2`

// DropReceiver removes all entries, prepared messages, groups and past digests of a
// receiver.
func (s *Store) DropReceiver(ctx context.Context, receiver string) (Counts, error) {
	err := s.writeLazily(ctx, "drop parked occurrences of a receiver", func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `
			UPDATE parked SET receivers = json_remove(receivers, '$."' || ?1 || '"') WHERE EXISTS (SELECT 1 FROM json_each(receivers) WHERE key = ?1)`, receiver)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.steps(ctx, "drop a receiver", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		if err := tx.deletePrepared(ctx, `receiver = ?`, receiver); err != nil {
			return nil, false, err
		}
		if _, err := tx.exec(ctx, `DELETE FROM digested WHERE receiver = ?`, receiver); err != nil {
			return nil, false, err
		}
		held, err := tx.dropHeld(ctx, receiver)
		if err != nil {
			return nil, false, err
		}
		ids, err := tx.ids(ctx, selectOfReceiver, receiver, chunk)
		if err != nil {
			return nil, false, err
		}
		counts, err := tx.remove(ctx, receiver, ids)
		if err != nil {
			return nil, false, err
		}
		held.add(counts)
		return held, len(ids) < chunk, tx.countEach(ctx, "", held, dropped)
	})
}

// dropHeld removes the groups of a receiver and the occurrences that wait in them.
func (tx *tx) dropHeld(ctx context.Context, receiver string) (Counts, error) {
	counts, err := tx.deleteHeld(ctx, receiver, `receiver = ? AND entry IS NULL`, receiver)
	if err != nil {
		return nil, err
	}
	rows, err := tx.query(ctx, `SELECT tenant, alarm, count(*), sum(bytes) FROM open_group WHERE receiver = ? GROUP BY tenant, alarm`, receiver)
	err = each(rows, err, func(rows *sql.Rows) error {
		var tenant, alarm string
		var n, bytes int64
		err := rows.Scan(&tenant, &alarm, &n, &bytes)
		tx.space.Add(ledger.Groups, tenant, -bytes)
		tx.after(func(m *memory) { m.groups.addIn(tenant, alarm, -n) })
		return err
	})
	if err != nil {
		return nil, err
	}
	_, err = tx.exec(ctx, `DELETE FROM open_group WHERE receiver = ?`, receiver)
	return counts, err
}

// DropOlderThan removes the oldest pending entries of a lane, up to the first that was
// created at t or later. A prepared message stays until [Store.Finish].
func (s *Store) DropOlderThan(ctx context.Context, receiver string, lane int64, t time.Time) (Counts, error) {
	return s.steps(ctx, "drop old entries", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		ids, err := tx.olderThan(ctx, receiver, lane, t)
		if len(ids) == 0 || err != nil {
			return nil, true, err
		}
		counts, err := tx.drop(ctx, receiver, ids)
		return counts, len(ids) < chunk, err
	})
}

// selectUnprepared selects entries of a lane: ?2.
func selectUnprepared(lane int64) string {
	return `SELECT id, created_at FROM entry WHERE receiver = ?1 AND ` + inLane(lane, "?2") + ` AND ` + unprepared + ` ORDER BY id LIMIT ?3`
}

// olderThan returns the entries of a lane before the first one that was created at t or later, one
// chunk at most.
func (tx *tx) olderThan(ctx context.Context, receiver string, lane int64, t time.Time) (ids []int64, err error) {
	rows, err := tx.query(ctx, selectUnprepared(lane), receiver, lane, chunk)
	err = each(rows, err, func(rows *sql.Rows) error {
		var id int64
		var created time.Time
		if err := rows.Scan(&id, timestamp{&created}); err != nil {
			return err
		}
		if !created.Before(t) {
			return errStop
		}
		ids = append(ids, id)
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return ids, err
}

var errStop = errors.New("stop")
