package ledger

import (
	"context"
	"database/sql"
)

// part is a row of held.
type part struct {
	receiver, key string
	position      uint64
	entry         sql.Null[uint64]
}

// theEntry is the one whose ID is the bound.
var theEntry = selection{column: "id", also: " AND id >= ?2"}

// DropHeld removes what waits in groups and was served by another leader. A message
// of which a part was is removed whole; what was not served of it is returned, by
// receiver, to be read again.
func (l *Ledger) DropHeld(ctx context.Context, served Floors) (again map[string]Held, err error) {
	err = l.write(ctx, "dropping what waits", func(ctx context.Context, tx *tx) error {
		again = map[string]Held{}
		parts, err := tx.allParts(ctx)
		if err != nil {
			return err
		}
		spoilt := map[uint64]bool{}
		for _, p := range parts {
			if !served.Served(p.receiver, p.key, p.position) {
				continue
			}
			if p.entry.Valid {
				spoilt[p.entry.V] = true
			} else if err := tx.dropPart(ctx, p); err != nil {
				return err
			}
		}
		for _, p := range parts {
			if !p.entry.Valid || !spoilt[p.entry.V] {
				continue
			}
			if !served.Served(p.receiver, p.key, p.position) {
				if again[p.receiver] == nil {
					again[p.receiver] = Held{}
				}
				again[p.receiver][p.key] = p.position
			}
			if err := tx.delete(ctx, p.receiver, theEntry, p.entry.V); err != nil {
				return err
			}
			if err := tx.dissolve(ctx, p.receiver); err != nil {
				return err
			}
		}
		return nil
	})
	return again, err
}

func (tx *tx) allParts(ctx context.Context) (parts []part, err error) {
	rows, err := tx.query(ctx, `SELECT receiver, key, position, entry FROM held`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var p part
		err := rows.Scan(&p.receiver, &p.key, &p.position, &p.entry)
		parts = append(parts, p)
		return err
	})
	return parts, err
}

func (tx *tx) dropPart(ctx context.Context, p part) error {
	_, err := tx.exec(ctx, `DELETE FROM held WHERE receiver = ? AND key = ?`, p.receiver, p.key)
	tx.after(func(m *memory) { m.released(p.receiver, 1) })
	return err
}
