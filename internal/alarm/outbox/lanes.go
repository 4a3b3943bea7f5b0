package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"
)

// MainLane contains the entries of a receiver that are in no other lane. Each other lane
// contains the entries of one subject. The entries of a lane are sent in order.
const MainLane int64 = -1

// MaxSetAside limits the messages of a receiver that are set aside.
const MaxSetAside = 200

// ErrTooManySetAside means that MaxSetAside messages of the receiver are set aside.
var ErrTooManySetAside = errors.New("too many messages of the receiver are set aside")

// laneOf returns the lane of a subject. No one can choose a subject that has the lane of
// another.
func laneOf(subject string) int64 {
	sum := sha256.Sum256([]byte(subject))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 1)
}

// inLane is the condition for the entries of a lane, which is a parameter of the query.
func inLane(lane int64, parameter string) string {
	if lane == MainLane {
		return "aside = 0 AND " + parameter + " < 0"
	}
	return "aside = 1 AND subject = " + parameter
}

// isAside is the value of aside for a new entry of a receiver (?1) and a subject (?8).
const isAside = `EXISTS (SELECT 1 FROM entry WHERE receiver = ?1 AND subject = ?8 AND aside = 1)`

const selectSideLanes = `SELECT DISTINCT subject FROM entry WHERE receiver = ? AND aside = 1`

// SideLanes returns the lanes of a receiver other than the main lane. It first continues a
// SetAside that a crash or an error interrupted.
func (s *Store) SideLanes(ctx context.Context, receiver string) (lanes []int64, err error) {
	if err := s.gather(ctx, receiver); err != nil {
		return nil, err
	}
	rows, err := s.readers.QueryContext(ctx, selectSideLanes, receiver)
	err = each(rows, err, func(rows *sql.Rows) error {
		var lane int64
		err := rows.Scan(&lane)
		lanes = append(lanes, lane)
		return err
	})
	return lanes, s.read("read the lanes of a receiver", err)
}

const (
	selectSubject = `SELECT subject FROM entry WHERE id = ?`
	selectOthers  = `SELECT id FROM entry WHERE receiver = ?1 AND aside = 0 AND subject <> ?2 LIMIT 1`
	countAside    = `SELECT count(*) FROM attempt WHERE receiver = ? AND lane >= 0`
	// misplaced selects a chunk of the entries of the main lane whose subject has a lane.
	misplaced = `
		SELECT id FROM entry WHERE receiver = ?1 AND aside = 0 AND ` + unprepared + `
		AND EXISTS (SELECT 1 FROM entry other WHERE other.receiver = ?1 AND other.subject = entry.subject AND other.aside = 1)
		LIMIT ?2`
	// updateAside makes entries late, so that the delivered offset of the receiver passes them.
	updateAside = `UPDATE entry SET aside = 1, late = (group_id = '') WHERE id IN `
)

// SetAside moves a prepared message of one subject, and all later entries with its subject,
// from the main lane to a lane of their own. If the message has several entries, they are
// pending again. It does nothing and returns false if no entry of another subject waits. It fails
// with ErrTooManySetAside beyond MaxSetAside. After another error, SideLanes continues what it began.
func (s *Store) SetAside(ctx context.Context, a *Attempt) (moved bool, err error) {
	lane := a.Lane
	err = s.writeLazily(ctx, "set a message aside", func(ctx context.Context, tx *tx) (err error) {
		lane, moved, err = tx.setAside(ctx, a)
		return err
	})
	if !moved || err != nil {
		return false, err
	}
	a.Lane = lane
	return true, s.gather(ctx, a.Receiver)
}

// gather moves the entries of the main lane whose subject has a lane of its own there, in
// chunks. No message of the main lane is prepared meanwhile.
func (s *core) gather(ctx context.Context, receiver string) error {
	var found bool
	err := s.readers.QueryRowContext(ctx, `SELECT EXISTS (`+misplaced+`)`, receiver, 1).Scan(&found)
	if !found || err != nil {
		return s.read("read the lanes of a receiver", err)
	}
	_, err = s.steps(ctx, "move messages to their lane", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		done, err := tx.gather(ctx, receiver)
		return nil, done, err
	})
	return err
}

// gather moves a chunk, and returns whether it was the last.
func (tx *tx) gather(ctx context.Context, receiver string) (done bool, err error) {
	moved, err := tx.exec(ctx, updateAside+`(`+misplaced+`)`, receiver, chunk)
	if err != nil {
		return false, err
	}
	return moved < chunk, tx.removed(ctx, receiver, 0, 0)
}

func (tx *tx) setAside(ctx context.Context, a *Attempt) (lane int64, moved bool, err error) {
	if err = tx.row(ctx, selectSubject, a.Entries[0]).Scan(&lane); err != nil {
		return 0, false, err
	}
	if others, err := tx.ids(ctx, selectOthers, a.Receiver, lane); err != nil || len(others) == 0 {
		return 0, false, err
	}
	var aside int
	if err := tx.row(ctx, countAside, a.Receiver).Scan(&aside); err != nil {
		return 0, false, err
	}
	if aside >= MaxSetAside {
		return 0, false, ErrTooManySetAside
	}
	if _, err := tx.exec(ctx, updateAside+`(SELECT value FROM json_each(?1))`, jsonColumn{a.Entries}); err != nil {
		return 0, false, err
	}
	return lane, true, errors.Join(tx.moveAttempt(ctx, a, lane), tx.removed(ctx, a.Receiver, 0, 0))
}

// moveAttempt moves an attempt to another lane than the main lane, where it can have only one
// entry. Else it removes the attempt.
func (tx *tx) moveAttempt(ctx context.Context, a *Attempt, lane int64) error {
	if len(a.Entries) > 1 {
		return tx.deletePrepared(ctx, `id = ?`, a.ID)
	}
	_, err := tx.exec(ctx, `UPDATE attempt SET lane = ? WHERE id = ?`, lane, a.ID)
	return err
}

const (
	countLane    = `SELECT count(*) FROM (SELECT 1 FROM entry WHERE receiver = ?1 AND aside = 1 AND subject = ?2 LIMIT ?3)`
	existsFirst  = `SELECT EXISTS (SELECT 1 FROM attempt WHERE receiver = ?1 AND lane IN (-1, ?2))`
	updateRejoin = `UPDATE entry SET aside = 0 WHERE receiver = ?1 AND aside = 1 AND subject = ?2`
)

// Rejoin moves the entries of a lane back to the main lane, in their old order. It does
// nothing and returns false if one of the two lanes has a prepared message, which would
// change. The same holds if very many entries wait in the lane.
func (s *Store) Rejoin(ctx context.Context, receiver string, lane int64) (moved bool, err error) {
	err = s.writeLazily(ctx, "move messages to the main lane", func(ctx context.Context, tx *tx) error {
		var prepared bool
		if err := tx.row(ctx, existsFirst, receiver, lane).Scan(&prepared); err != nil {
			return err
		}
		var entries int
		if err := tx.row(ctx, countLane, receiver, lane, chunk+1).Scan(&entries); err != nil {
			return err
		}
		if moved = !prepared && entries <= chunk; !moved {
			return nil
		}
		_, err := tx.exec(ctx, updateRejoin, receiver, lane)
		return err
	})
	return moved && err == nil, err
}

func selectOldestIn(lane int64) string {
	return `SELECT created_at FROM entry WHERE receiver = ?1 AND ` + inLane(lane, "?2") + ` ORDER BY id LIMIT 1`
}

// OldestIn returns when the oldest entry of a lane was created, and whether there is one.
func (s *Store) OldestIn(ctx context.Context, receiver string, lane int64) (created time.Time, found bool, err error) {
	err = s.readers.QueryRowContext(ctx, selectOldestIn(lane), receiver, lane).Scan(timestamp{&created})
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, false, nil
	}
	return created, err == nil, s.read("read the oldest entry of a lane", err)
}
