package outbox

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// BeginDecision waits until no other decision is made, and returns a function that ends this one.
// A decision reads the state that it changes: what is stored for an occurrence depends on the
// groups of its receivers. It fails if ctx ends.
func (s *Store) BeginDecision(ctx context.Context) (done func(), err error) {
	if err := s.deciding.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.deciding.Release(1) }, nil
}

// Adopt is AdoptInDecision as a decision of its own.
func (s *Store) Adopt(ctx context.Context, from, to string) error {
	done, err := s.BeginDecision(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.AdoptInDecision(ctx, from, to)
}

// AdoptInDecision gives what waits for a receiver that did not exist to one that exists now. from
// and to are their IDs. It does nothing while a message for the new receiver is prepared, because
// that one would then contain the entries. The caller began a decision.
func (s *Store) AdoptInDecision(ctx context.Context, from, to string) error {
	return s.write(ctx, "give entries to a new receiver", func(ctx context.Context, tx *tx) error {
		var prepared bool
		err := tx.row(ctx, selectPreparedAfter, from, to).Scan(&prepared)
		if prepared || err != nil {
			return err
		}
		return tx.rename(ctx, from, to)
	})
}

// selectPreparedAfter reports whether an attempt for a receiver would contain an entry of
// another one if that were its own.
const selectPreparedAfter = `
	SELECT EXISTS (SELECT 1 FROM attempt WHERE receiver = ?2 AND lane = -1 AND last >= (SELECT min(id) FROM entry WHERE receiver = ?1))`

// rename gives all rows of a receiver to another one. A row that the other one has too is
// deleted.
func (tx *tx) rename(ctx context.Context, from, to string) error {
	var prepared int64
	if err := tx.row(ctx, `SELECT coalesce(sum(`+sizeOfAttempt+`), 0) FROM attempt WHERE receiver = ?`, from).Scan(&prepared); err != nil {
		return err
	}
	for _, table := range []string{"attempt", "entry", "held", "awaited", "digested"} {
		if err := tx.renameIn(ctx, table, from, to); err != nil {
			return err
		}
	}
	if err := tx.renameGroups(ctx, from, to); err != nil {
		return err
	}
	for done := false; !done; {
		var err error
		if done, err = tx.gather(ctx, to); err != nil {
			return err
		}
	}
	var backlog Backlog
	var held, changes int64
	err := tx.row(ctx, `SELECT count(*), coalesce(min(position) FILTER (WHERE aside = 0), 0),
		(SELECT count(*) FROM held WHERE receiver = ?1), (SELECT count(*) FROM held WHERE receiver = ?1 AND stream <> '') FROM entry WHERE receiver = ?1`, to).
		Scan(&backlog.Entries, &backlog.Lowest, &held, &changes)
	tx.after(func(m *memory) {
		delete(m.backlogs, from)
		m.addHeld(from, -m.held[from], -m.heldChanges[from])
		if backlog.Entries > 0 {
			m.backlogs[to] = backlog
		}
		m.addHeld(to, held-m.held[to], changes-m.heldChanges[to])
		m.prepared.add(from, -prepared)
		m.prepared.add(to, prepared)
	})
	return err
}

func (tx *tx) renameIn(ctx context.Context, table, from, to string) error {
	if _, err := tx.exec(ctx, `UPDATE OR IGNORE `+table+` SET receiver = ?2 WHERE receiver = ?1`, from, to); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `DELETE FROM `+table+` WHERE receiver = ?`, from)
	return err
}

// renameGroups is renameIn for the open groups, whose bytes are in memory.
func (tx *tx) renameGroups(ctx context.Context, from, to string) error {
	if _, err := tx.exec(ctx, `UPDATE OR IGNORE open_group SET receiver = ?2 WHERE receiver = ?1`, from, to); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `
		UPDATE OR IGNORE repeated SET receiver = ?2 WHERE receiver = ?1
		AND NOT EXISTS (SELECT 1 FROM open_group g WHERE g.receiver = ?1 AND g.id = group_id)`, from, to)
	if err != nil {
		return err
	}
	rows, err := tx.query(ctx, `DELETE FROM open_group WHERE receiver = ? RETURNING alarm, budget, bytes`, from)
	return each(rows, err, func(rows *sql.Rows) error {
		var subject, budget string
		var bytes int64
		err := rows.Scan(&subject, &budget, &bytes)
		tx.after(func(m *memory) {
			m.groups.addIn(budget, subject, -1)
			m.addState(budget, -bytes)
		})
		return err
	})
}

// Unadopted returns the IDs of receivers for which something waits, and which did not exist when
// it was stored.
func (s *Store) Unadopted() []string {
	return slices.DeleteFunc(s.Receivers(), func(id string) bool { return !alarm.IsAwaited(id) })
}

// Receivers returns the receivers for which something waits, also if it waits in groups only.
func (s *Store) Receivers() []string {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	receivers := slices.Collect(maps.Keys(s.memory.backlogs))
	for receiver := range s.memory.held {
		if _, ok := s.memory.backlogs[receiver]; !ok {
			receivers = append(receivers, receiver)
		}
	}
	slices.Sort(receivers)
	return receivers
}
