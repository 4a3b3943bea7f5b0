package outbox

import (
	"context"
	"database/sql"
)

// part is a row of held.
type heldPart struct {
	receiver, key string
	position      uint64
	entry         sql.Null[uint64]
}

// DropHeld removes what waits in groups, or in their messages, and was served by
// another leader. A message of which a part was is unmade: its other parts wait in
// their group again, as if it had not been released.
func (l *Store) DropHeld(ctx context.Context, served DeliveredOffsets) error {
	return l.write(ctx, "dropping what waits", func(ctx context.Context, tx *tx) error {
		spoilt, err := tx.dropDelivered(ctx, served)
		if err != nil {
			return err
		}
		for entry, receiver := range spoilt {
			if err := tx.undoMessage(ctx, receiver, entry); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropServed removes the parts that were served, and returns the messages that they
// were parts of, with their receivers.
func (tx *tx) dropDelivered(ctx context.Context, served DeliveredOffsets) (spoilt map[uint64]string, err error) {
	parts, err := tx.allParts(ctx)
	if err != nil {
		return nil, err
	}
	spoilt = map[uint64]string{}
	for _, p := range parts {
		if !served.Covers(p.receiver, p.key, p.position) {
			continue
		}
		if err := tx.dropPart(ctx, p); err != nil {
			return nil, err
		}
		if p.entry.Valid {
			spoilt[p.entry.V] = p.receiver
		}
	}
	return spoilt, nil
}

func (tx *tx) allParts(ctx context.Context) (parts []heldPart, err error) {
	rows, err := tx.query(ctx, `SELECT receiver, key, position, entry FROM held`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var p heldPart
		err := rows.Scan(&p.receiver, &p.key, &p.position, &p.entry)
		parts = append(parts, p)
		return err
	})
	return parts, err
}

func (tx *tx) dropPart(ctx context.Context, p heldPart) error {
	_, err := tx.exec(ctx, `DELETE FROM held WHERE receiver = ? AND key = ?`, p.receiver, p.key)
	tx.after(func(m *memory) { m.unheld(p.receiver, 1) })
	return err
}

// theEntry is the one whose ID is the bound.
var exactID = selection{column: "id", also: " AND id >= ?2"}

// unmake removes a message of a group and leaves its parts.
func (tx *tx) undoMessage(ctx context.Context, receiver string, entry uint64) error {
	if _, err := tx.exec(ctx, `UPDATE held SET entry = NULL WHERE entry = ?`, entry); err != nil {
		return err
	}
	if err := tx.delete(ctx, receiver, exactID, entry); err != nil {
		return err
	}
	return tx.dropBrokenAttempt(ctx, receiver)
}
