package outbox

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
)

// StatusCounts are the numbers in the status of an alarm or a receiver, or a change of them.
// A subject is the key of an alarm or a receiver.
type StatusCounts struct {
	// The numbers mean what they do in v1alpha1.AlarmStatus.
	Matched, Delivered, SuppressedByThreshold, SuppressedByMute, Dropped, Unresolved, Undecided, WithoutGroupKey int64
	// LastMatch and LastDelivery are zero if there is none.
	LastMatch, LastDelivery time.Time
}

// Plus returns the sum, with the later times.
func (c StatusCounts) Plus(d StatusCounts) StatusCounts {
	return StatusCounts{
		Matched: c.Matched + d.Matched, Delivered: c.Delivered + d.Delivered,
		SuppressedByThreshold: c.SuppressedByThreshold + d.SuppressedByThreshold, SuppressedByMute: c.SuppressedByMute + d.SuppressedByMute,
		Dropped: c.Dropped + d.Dropped, Unresolved: c.Unresolved + d.Unresolved, Undecided: c.Undecided + d.Undecided,
		WithoutGroupKey: c.WithoutGroupKey + d.WithoutGroupKey,
		LastMatch:       alarm.Later(c.LastMatch, d.LastMatch), LastDelivery: alarm.Later(c.LastDelivery, d.LastDelivery),
	}
}

// bounded returns counts that cannot overflow when more is added. Users with the permission to
// write a status can write any number.
func (c StatusCounts) bounded() StatusCounts {
	for _, n := range []*int64{&c.Matched, &c.Delivered, &c.SuppressedByThreshold, &c.SuppressedByMute, &c.Dropped, &c.Unresolved, &c.Undecided, &c.WithoutGroupKey} {
		*n = min(max(*n, 0), math.MaxInt64/2)
	}
	return c
}

// countedSubject is a row of status_count.
type countedSubject struct {
	StatusCounts
	// uid is the UID of the object; empty before Adopt.
	uid string
}

// Counts returns the counts of a subject, from memory. ok is false if there are none:
// the numbers in its status are then right. It is also false before Confirm, because an
// outbox without the last term has old counts. adopted is false if Adopt must be
// called first.
func (s Statuses) Counts(subject, uid string) (counts StatusCounts, adopted, ok bool) {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	row, ok := s.memory.counted[subject]
	return row.StatusCounts, row.uid == uid, ok && s.memory.confirmed
}

// Adopt adds the counts in the status of an object to those that this outbox has
// counted since it took over. It does nothing if it did so before. Counts of another object
// with the same name are removed.
func (s Statuses) Adopt(ctx context.Context, subject, uid string, base StatusCounts) error {
	return s.write(ctx, "adopt counts", func(ctx context.Context, tx *tx) error {
		row, found, err := tx.countedSubject(ctx, subject)
		if !found || row.uid == uid || err != nil {
			return err
		}
		if row.uid != "" {
			row.StatusCounts = StatusCounts{}
		}
		row = countedSubject{row.Plus(base.bounded()), uid}
		_, err = tx.exec(ctx, `UPDATE status_count SET uid = ?, matched = ?, delivered = ?, suppressed_by_threshold = ?,
			suppressed_by_mute = ?, dropped = ?, unresolved = ?, undecided = ?, without_group_key = ?, last_match = ?, last_delivery = ? WHERE subject = ?`,
			row.uid, row.Matched, row.Delivered, row.SuppressedByThreshold, row.SuppressedByMute,
			row.Dropped, row.Unresolved, row.Undecided, row.WithoutGroupKey, micros(row.LastMatch), micros(row.LastDelivery), subject)
		tx.after(func(m *memory) { m.counted[subject] = row })
		return err
	})
}

// Forget removes the counts of a subject that was deleted.
func (s Statuses) Forget(ctx context.Context, subject string) error {
	s.memory.mu.RLock()
	_, ok := s.memory.counted[subject]
	s.memory.mu.RUnlock()
	if !ok {
		return nil
	}
	return s.writeLazily(ctx, "forget counts", func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `DELETE FROM status_count WHERE subject = ?`, subject)
		tx.after(func(m *memory) { delete(m.counted, subject) })
		return err
	})
}

// TakeCounted returns the subjects whose counts changed since the last call. The first call
// after Confirm returns all, because a killed process can have written an older status.
func (s Statuses) TakeCounted() []string {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if !s.memory.confirmed {
		return nil
	}
	subjects := make([]string, 0, len(s.memory.recounted))
	for subject := range s.memory.recounted {
		subjects = append(subjects, subject)
	}
	clear(s.memory.recounted)
	return subjects
}

// confirm makes the counts visible.
func (m *memory) confirm() {
	m.confirmed = true
	for subject := range m.counted {
		m.recounted[subject] = struct{}{}
	}
}

// count changes the counts of a subject.
func (tx *tx) count(ctx context.Context, subject string, change StatusCounts) error {
	_, err := tx.exec(ctx, `
		INSERT INTO status_count (subject, uid, matched, delivered, suppressed_by_threshold,
			suppressed_by_mute, dropped, unresolved, undecided, without_group_key, last_match, last_delivery)
		VALUES (?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (subject) DO UPDATE SET
			matched = matched + excluded.matched, delivered = delivered + excluded.delivered,
			suppressed_by_threshold = suppressed_by_threshold + excluded.suppressed_by_threshold,
			suppressed_by_mute = suppressed_by_mute + excluded.suppressed_by_mute, dropped = dropped + excluded.dropped,
			unresolved = unresolved + excluded.unresolved, undecided = undecided + excluded.undecided,
			without_group_key = without_group_key + excluded.without_group_key, last_match = max(last_match, excluded.last_match),
			last_delivery = max(last_delivery, excluded.last_delivery)`,
		subject, change.Matched, change.Delivered, change.SuppressedByThreshold, change.SuppressedByMute, change.Dropped,
		change.Unresolved, change.Undecided, change.WithoutGroupKey, micros(change.LastMatch), micros(change.LastDelivery))
	tx.after(func(m *memory) {
		row := m.counted[subject]
		row.StatusCounts = row.Plus(change)
		m.counted[subject] = row
		m.recounted[subject] = struct{}{}
	})
	return err
}

// countAll changes the counts of several subjects.
func (tx *tx) countAll(ctx context.Context, changes map[string]StatusCounts) error {
	for subject, change := range changes {
		if err := tx.count(ctx, subject, change); err != nil {
			return err
		}
	}
	return nil
}

func dropped(n int64) StatusCounts { return StatusCounts{Dropped: n} }

// countEach counts occurrences for their alarms and for their receiver, which is empty if it
// was deleted.
func (tx *tx) countEach(ctx context.Context, receiver string, alarms Counts, change func(n int64) StatusCounts) error {
	var sum int64
	for subject, n := range alarms {
		sum += n
		if err := tx.count(ctx, subject, change(n)); err != nil {
			return err
		}
	}
	if receiver == "" || sum == 0 {
		return nil
	}
	return tx.count(ctx, alarm.ReceiverKey(receiver), change(sum))
}

const selectCounted = `SELECT subject, uid, matched, delivered, suppressed_by_threshold, suppressed_by_mute,
	dropped, unresolved, undecided, without_group_key, last_match, last_delivery FROM status_count`

func scanCounted(row file.Row) (subject string, c countedSubject, err error) {
	err = row.Scan(&subject, &c.uid, &c.Matched, &c.Delivered, &c.SuppressedByThreshold, &c.SuppressedByMute, &c.Dropped, &c.Unresolved, &c.Undecided, &c.WithoutGroupKey,
		timestamp{&c.LastMatch}, timestamp{&c.LastDelivery})
	return subject, c, err
}

func (tx *tx) countedSubject(ctx context.Context, subject string) (c countedSubject, found bool, err error) {
	_, c, err = scanCounted(tx.row(ctx, selectCounted+` WHERE subject = ?`, subject))
	if errors.Is(err, sql.ErrNoRows) {
		return c, false, nil
	}
	return c, err == nil, err
}

// loadCounts reads all counts.
func (m *memory) loadCounts(ctx context.Context, db *sql.DB) error {
	m.counted, m.recounted = map[string]countedSubject{}, map[string]struct{}{}
	rows, err := db.QueryContext(ctx, selectCounted)
	return each(rows, err, func(rows *sql.Rows) error {
		subject, c, err := scanCounted(rows)
		m.counted[subject] = c
		return err
	})
}
