package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox/file"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// Change is what one decision changes.
type Change struct {
	// Events moves the stream of Events, and Objects that of a resource. If both are nil, no stream
	// moves.
	Events  *EventStep
	Objects *ObjectStep
	// Stream names the stream that the positions of Entries belong to, if Objects is nil. It is empty
	// for Events.
	Stream string
	// Entries are new messages. Their IDs are ignored. Those without a position get that of Events.
	// Messages of occurrences whose position has passed are sent after those of all Events that
	// are read.
	Entries []Entry
	// Windows replace the earlier windows of the same IDs.
	Windows []Window
	// Parked are occurrences that cannot be evaluated yet. Unparked no longer wait.
	Parked, Unparked []Parked
	// Lasting are changes of states. Their space must be checked before.
	Lasting LastingChanges
	// Status changes the counts of alarms and receivers.
	Status map[string]StatusCounts
}

// EventStep moves the stream of Events.
type EventStep struct {
	// Position is the position after the step. Without a History, it is never before the last one.
	Position uint64
	// Time is kept for the event source, with microseconds, in UTC.
	Time time.Time
	// History, if set, names a new history of positions. Commit then drops the delivered
	// offsets, which belong to the former history. It also lowers the positions of
	// pending entries to Position. Entries belong to the new history.
	History string
	// Since is State.Since of the new history. It is ignored if History is empty.
	Since time.Time
	// Counts replace the earlier counts of the same Events.
	Counts []alarm.EventCount
	// CountsKnown is true if the counts of all live Events are known after this step.
	CountsKnown bool
	// Forget names Events whose counts are no longer needed.
	Forget []string
	// Oldest and Newest are the times of the first and the last occurrence of the step,
	// zero if there is none. Windows that ended before Oldest are removed.
	Oldest, Newest time.Time
}

// BeginDecision waits until no other decision is made, and returns a function that ends this one.
// A decision reads the state that it changes: what is stored for an occurrence depends on the
// groups of its receivers. It fails if ctx ends.
func (s *Store) BeginDecision(ctx context.Context) (done func(), err error) {
	if err := s.deciding.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.deciding.Release(1) }, nil
}

// Commit stores a change in one transaction. If it fails, nothing changes: with ErrBackwards
// for a position of Events before the committed one, with file.ErrFull if there is no space. An entry is
// ignored if its receiver already has one with the same key. If the file is full, Commit
// makes space and tries again. It removes entries of past digests, then windows and groups
// that ended by the clock, then the counts of Events.
func (s *Store) Commit(ctx context.Context, c Change) error {
	commit := func() error {
		return s.writeBounded(ctx, "commit a decision", func(ctx context.Context, tx *tx) error { return tx.commit(ctx, &c, s.clock.Now()) })
	}
	err := commit()
	for _, makeRoom := range []func(context.Context) bool{s.makeRoom, s.forgetEnded, s.forgetAllCounts} {
		if errors.Is(err, file.ErrFull) && makeRoom(ctx) {
			err = commit()
		}
	}
	return err
}

// commit stores a change. Entries use space before the baselines, which can do without.
func (tx *tx) commit(ctx context.Context, c *Change, now time.Time) error {
	state, err := tx.state(ctx)
	if err != nil {
		return err
	}
	for _, do := range []func() error{
		func() error { return tx.unpark(ctx, c.Unparked) },
		func() error { return tx.advance(ctx, c.Events) },
		func() error { return tx.insertAll(ctx, c.placed(&state)) },
		func() error { return tx.park(ctx, c.Parked) },
		func() error { return tx.putWindows(ctx, c.Windows) },
		func() error { return tx.countAll(ctx, c.Status) },
		func() error { return tx.changeLasting(ctx, c.Lasting) },
		func() error { return tx.putObjects(ctx, c.Objects) },
		func() error { return tx.putEvents(ctx, c.Events, now) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// placed returns the entries with their places in their stream. Those of changes and of parked
// occurrences are late. So are those of Events that a replay reads because they waited at the last leader.
func (c *Change) placed(before *State) []Entry {
	stream := c.Stream
	if c.Objects != nil {
		stream = c.Objects.Stream.Name
	}
	entries := slices.Clone(c.Entries)
	for i := range entries {
		e := &entries[i]
		e.Stream = stream
		if e.Position == 0 {
			e.Position = before.Position
		}
		e.Late = c.Events == nil || c.Events.History == "" && e.Position <= before.Delivered.Of(e.Receiver)
	}
	return entries
}

// putEvents stores the counts of a step, and removes what ended before it.
func (tx *tx) putEvents(ctx context.Context, step *EventStep, now time.Time) error {
	if step == nil {
		return nil
	}
	if err := tx.putCounts(ctx, step.Counts); err != nil {
		return err
	}
	if err := tx.forgetEndedBefore(ctx, step.Oldest, now); err != nil {
		return err
	}
	return tx.forgetCounts(ctx, step.Forget)
}

// forgetEnded removes the windows and groups that ended by the clock, and reports whether
// there were any. Otherwise, those that fill the file would stay: a batch removes what ended
// before it, but only when it is committed.
func (s *core) forgetEnded(ctx context.Context) (forgot bool) {
	for {
		var removed int64
		err := s.makeSpace(ctx, "forget what ended", func(ctx context.Context, tx *tx) (err error) {
			removed, err = tx.forgetGroups(ctx, s.clock.Now())
			return err
		})
		if removed == 0 || err != nil {
			return forgot
		}
		forgot = true
	}
}

// forgettingPeriod is the minimum time between two batches that remove groups. Each of them
// reads all groups that had no occurrence for GroupLife, and thousands can wait for receivers.
const forgettingPeriod = time.Minute

// forgetEndedBefore removes the windows and groups that ended before the oldest occurrence of a batch. It
// does so a period after the last time, by the times of Events, or by the clock if those do
// not progress. If there can be more of them, the next batch continues.
func (tx *tx) forgetEndedBefore(ctx context.Context, oldest, now time.Time) error {
	if oldest.IsZero() {
		return nil
	}
	to, at := tx.memory.lastForgot()
	if oldest.Sub(to) < forgettingPeriod && now.Sub(at).Abs() < forgettingPeriod {
		return nil
	}
	removed, err := tx.forgetGroups(ctx, oldest)
	if removed < chunk && err == nil {
		tx.after(func(m *memory) { m.forgotTo, m.forgotAt = oldest, now })
	}
	return err
}

// forgetAllCounts removes the counts of all Events if the file has reached its limit, and
// reports whether it did. The event source has them in memory. The next process reads them
// from the API server, because CountsKnown stays false until then.
func (s *core) forgetAllCounts(ctx context.Context) (forgot bool) {
	if full, err := s.file.NearlyFull(ctx); !full || err != nil {
		return false
	}
	err := s.makeSpace(ctx, "forget the counts", func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		n, err := tx.exec(ctx, `DELETE FROM event_count`)
		if err != nil {
			return err
		}
		forgot, tx.countsForgotten, state.CountsKnown = n > 0, true, false
		return tx.setState(ctx, state)
	})
	return forgot && err == nil
}

// advance moves the position of Events.
func (tx *tx) advance(ctx context.Context, step *EventStep) error {
	if step == nil {
		return nil
	}
	state, err := tx.state(ctx)
	if err != nil {
		return err
	}
	if step.Position < state.Position && step.History == "" {
		return fmt.Errorf("%w: %d is before %d", ErrBackwards, step.Position, state.Position)
	}
	if step.History != "" {
		state.History, state.Since, state.Delivered = step.History, step.Since.UTC().Truncate(time.Microsecond), progress.Offsets{}
		if err := tx.lowerPositions(ctx); err != nil {
			return err
		}
	}
	if state.Delivered.PassedBy(step.Position) {
		state.Delivered = progress.Offsets{}
	}
	state.Position, state.Time, state.CountsKnown = step.Position, step.Time, step.CountsKnown && !tx.countsForgotten
	if step.Newest.After(state.Newest) {
		state.Newest = step.Newest.UTC().Truncate(time.Microsecond)
	}
	return tx.setState(ctx, state)
}

// lowerPositions puts what waits before the new history. Otherwise, a receiver would seem to be ahead
// of the event source, or another leader would not read it again.
func (tx *tx) lowerPositions(ctx context.Context) error {
	const position = alarm.ResetPosition
	for _, waiting := range []string{"entry SET position = ?1 WHERE stream = '' AND", "held SET position = ?1 WHERE stream = '' AND", "parked SET position = ?1 WHERE"} {
		if _, err := tx.exec(ctx, `UPDATE `+waiting+` position > ?1`, position); err != nil {
			return err
		}
	}
	tx.after(func(m *memory) {
		for receiver, b := range m.backlogs {
			b.Lowest = min(b.Lowest, position)
			m.backlogs[receiver] = b
		}
	})
	return nil
}

// insert stores an entry, and reports whether it is new and uses the content.
func (tx *tx) insert(ctx context.Context, e *Entry, content int64) (bool, error) {
	if e.Member != nil {
		return tx.join(ctx, e, content)
	}
	var late bool
	err := tx.row(ctx, `
		INSERT INTO entry (receiver, alarm, key, position, count, created_at, content, subject, tenant, bytes, stream, aside, late)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, aside, aside OR ?12 FROM (SELECT `+isAside+` AS aside) WHERE true
		ON CONFLICT (receiver, key) DO NOTHING RETURNING late`,
		e.Receiver, e.Alarm, e.Key, e.Position, e.Count, micros(e.CreatedAt), content, laneOf(e.Subject), e.Tenant, e.Bytes(), e.Stream, e.Late).Scan(&late)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	tx.after(func(m *memory) { m.added(e.Receiver, e.Position, !late) })
	return err == nil, err
}

const selectCounts = `SELECT uid, count, position FROM event_count`

// EventCounts returns every count, in no order. The sequence ends after an error.
func (s *Store) EventCounts(ctx context.Context) iter.Seq2[alarm.EventCount, error] {
	return sequence(ctx, s.core, "read the counts", func(rows *sql.Rows) (c alarm.EventCount, err error) {
		return c, rows.Scan(uidColumn{&c.UID}, &c.Count, &c.Position)
	}, selectCounts)
}

// sequence returns the rows of a query. It ends after an error.
func sequence[T any](ctx context.Context, s *core, what string, scan func(*sql.Rows) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		rows, err := s.readers.QueryContext(ctx, query, args...)
		err = each(rows, err, func(rows *sql.Rows) error {
			row, err := scan(rows)
			if err == nil && !yield(row, nil) {
				return errStop
			}
			return err
		})
		if err != nil && !errors.Is(err, errStop) {
			var none T
			yield(none, s.read(what, err))
		}
	}
}

func (tx *tx) putCounts(ctx context.Context, counts []alarm.EventCount) error {
	for _, c := range counts {
		_, err := tx.exec(ctx, `
			INSERT INTO event_count (uid, count, position) VALUES (?, ?, ?)
			ON CONFLICT (uid) DO UPDATE SET count = excluded.count, position = excluded.position`,
			packUID(c.UID), c.Count, c.Position)
		if err != nil {
			return err
		}
	}
	return nil
}

const deleteCount = `DELETE FROM event_count WHERE uid = ?`

func (tx *tx) forgetCounts(ctx context.Context, uids []string) error {
	for _, u := range uids {
		if _, err := tx.exec(ctx, deleteCount, packUID(u)); err != nil {
			return err
		}
	}
	return nil
}

// Window is the state of a threshold.
type Window struct {
	// ID identifies the window: 64 characters at most.
	ID string
	// Alarm is the alarm that owns the window.
	Alarm string
	// Tenant names whose space the window uses.
	Tenant string
	// Until is the time after which the window can be removed: see EventStep.Oldest.
	Until time.Time
	// State is opaque here. MaxState is the size that it can reach, in bytes.
	State    []byte
	MaxState int
}

const selectWindow = `SELECT counted FROM open_group WHERE receiver = '' AND id = ?`

// Window returns the state of a window, or nil if there is none.
func (s *Store) Window(ctx context.Context, id string) ([]byte, error) {
	var state []byte
	err := s.readers.QueryRowContext(ctx, selectWindow, id).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return state, s.read("read a window", err)
}

// OpenGroup describes what is stored of a group.
type OpenGroup struct {
	// Receivers have the group open. Unresolved: it is not resolved for one of them.
	Receivers  []string
	Unresolved bool
	// Window is the number of bytes that the window of the group counts for, 0 if there is
	// none.
	Window int64
}

// Get returns what is stored of the group of a Membership, and of the Window with the
// same ID.
func (s Groups) Get(ctx context.Context, id string) (g OpenGroup, err error) {
	rows, err := s.readers.QueryContext(ctx, selectOpenGroup, id)
	err = each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		var bytes int64
		var resolved bool
		err := rows.Scan(&receiver, &bytes, &resolved)
		if receiver == "" {
			g.Window = bytes
		} else {
			g.Receivers, g.Unresolved = append(g.Receivers, receiver), g.Unresolved || !resolved
		}
		return err
	})
	return g, s.read("look for a group", err)
}

const selectOpenGroup = `SELECT receiver, bytes, resolved FROM open_group WHERE id = ?1`

const selectWindowBytes = `SELECT tenant, bytes FROM open_group WHERE receiver = '' AND id = ?`

func (tx *tx) putWindows(ctx context.Context, windows []Window) error {
	for i := range windows {
		if err := tx.putWindow(ctx, windows[i]); err != nil {
			return err
		}
	}
	return nil
}

// putWindow stores a window, so that it ends as a group without a message does. One that exists keeps its tenant.
func (tx *tx) putWindow(ctx context.Context, w Window) error {
	var before int64
	err := tx.row(ctx, selectWindowBytes, w.ID).Scan(&w.Tenant, &before)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	bytes := WindowBytes(w.Alarm, w.Tenant, max(w.MaxState, len(w.State)))
	newest := micros(w.Until.Add(-GroupLife))
	if known {
		_, err = tx.exec(ctx, `UPDATE open_group SET newest = ?, counted = ?, bytes = ? WHERE receiver = '' AND id = ?`, newest, w.State, bytes, w.ID)
	} else {
		_, err = tx.exec(ctx, `INSERT INTO open_group (receiver, id, alarm, newest, counted, tenant, bytes) VALUES ('', ?, ?, ?, ?, ?, ?)`,
			w.ID, w.Alarm, newest, w.State, w.Tenant, bytes)
		tx.countGroup("", w.Tenant, w.Alarm, 1)
	}
	tx.space.Add(ledger.Groups, w.Tenant, bytes-before)
	return err
}

// CanCommit returns nil if a Commit is likely to succeed: the disk and the file have space,
// and a small transaction reaches the disk. It changes nothing.
func (s *Store) CanCommit(ctx context.Context) error {
	if err := s.file.CheckSpace(ctx); err != nil {
		return err
	}
	return s.writeBounded(ctx, "check the outbox", func(ctx context.Context, tx *tx) error {
		state, err := tx.state(ctx)
		if err != nil {
			return err
		}
		return tx.setState(ctx, state)
	})
}
