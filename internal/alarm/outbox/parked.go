package outbox

import (
	"context"
	"database/sql"
	"errors"

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
)

// Parked is an occurrence that waits until its object can be read.
type Parked struct {
	// ID is set by Commit.
	ID int64
	// Key identifies the occurrence of the alarm. An occurrence that is already parked is
	// not parked again.
	Key string
	// Alarm is the UID of the alarm.
	Alarm string
	// Object names what is unread, with at most some hundred bytes. Namespace is its
	// namespace.
	Object, Namespace string
	// Tenant names the space that the row uses.
	Tenant string
	// Position is the resourceVersion of the occurrence.
	Position uint64
	// Since is when it was parked, in microseconds since 1970.
	Since int64
	// Receivers are the receivers that must get the occurrence if it matches, with the keys
	// of their entries. The key is empty if another leader has sent it.
	Receivers map[string]string
	// Data is opaque here.
	Data []byte
}

// threeInAPage is a size of rows: three of them fit into a page. Longer ones can leave half
// of a page empty.
const threeInAPage = 1_300

// Bytes returns how many bytes the occurrence counts for, rounded up from what SQLite uses
// for its rows and their indexes.
func (p *Parked) Bytes() int64 {
	size := len(p.Data) + len(p.Key) + len(p.Alarm) + len(p.Object) + len(p.Namespace) + len(p.Tenant)
	for receiver, key := range p.Receivers {
		size += len(receiver) + len(key) + 8
	}
	if size > threeInAPage {
		size *= 2
	}
	return int64(size + 512 + len(p.Key) + len(p.Alarm) + 2*len(p.Object) + len(p.Namespace))
}

func (tx *tx) park(ctx context.Context, all []Parked) error {
	for i := range all {
		if err := tx.parkOne(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// parkOne adds the receivers if the row exists: a replay reads an occurrence again.
func (tx *tx) parkOne(ctx context.Context, p *Parked) error {
	if p.Receivers == nil { // which would be null
		p.Receivers = map[string]string{}
	}
	n, err := tx.exec(ctx, `UPDATE parked SET receivers = json_patch(?2, receivers) WHERE key = ?1`, p.Key, jsonColumn{p.Receivers})
	if n > 0 || err != nil {
		return err
	}
	_, err = tx.exec(ctx, `
		INSERT INTO parked (key, alarm, object, namespace, tenant, position, since, receivers, bytes, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		p.Key, p.Alarm, p.Object, p.Namespace, p.Tenant, p.Position, p.Since, jsonColumn{p.Receivers}, p.Bytes(), p.Data)
	tx.space.Add(ledger.Parked, p.Tenant, p.Bytes())
	tx.after(func(m *memory) { m.addParked(p.Namespace, 1) })
	return err
}

// Namespaces returns the namespaces with parked occurrences, from memory.
func (s Parking) Namespaces() []string {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	namespaces := make([]string, 0, len(s.memory.parked))
	for namespace := range s.memory.parked {
		namespaces = append(namespaces, namespace)
	}
	return namespaces
}

// Has reports whether an occurrence of the alarm waits for the object.
func (s Parking) Has(ctx context.Context, alarmUID, object string) (has bool, err error) {
	s.memory.mu.RLock()
	none := len(s.memory.parked) == 0
	s.memory.mu.RUnlock()
	if none {
		return false, nil
	}
	err = s.readers.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM parked WHERE object = ? AND alarm = ?)`, object, alarmUID).Scan(&has)
	return has, s.read("look for parked occurrences", err)
}

// Next returns the next object of a namespace after this one, in the order of their
// names. It is empty after the last.
func (s Parking) Next(ctx context.Context, namespace, after string) (object string, err error) {
	err = s.readers.QueryRowContext(ctx, `SELECT object FROM parked WHERE namespace = ? AND object > ? ORDER BY object LIMIT 1`, namespace, after).Scan(&object)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return object, s.read("look for parked occurrences", err)
}

// Of returns the oldest occurrences that wait for an object, in the order in which they
// were parked.
func (s Parking) Of(ctx context.Context, namespace, object string, limit int) (all []Parked, err error) {
	rows, err := s.readers.QueryContext(ctx, `
		SELECT id, key, alarm, tenant, position, since, receivers, data FROM parked
		WHERE namespace = ? AND object = ? ORDER BY id LIMIT ?`, namespace, object, limit)
	err = each(rows, err, func(rows *sql.Rows) error {
		p := Parked{Object: object, Namespace: namespace}
		err := rows.Scan(&p.ID, &p.Key, &p.Alarm, &p.Tenant, &p.Position, &p.Since, jsonColumn{&p.Receivers}, &p.Data)
		all = append(all, p)
		return err
	})
	return all, s.read("read parked occurrences", err)
}

// unpark removes occurrences that no longer wait.
func (tx *tx) unpark(ctx context.Context, all []Parked) error {
	for i := range all {
		if err := tx.deleteParked(ctx, all[i].ID); err != nil {
			return err
		}
	}
	return nil
}

func (tx *tx) deleteParked(ctx context.Context, id int64) error {
	var namespace, tenant string
	var bytes int64
	err := tx.row(ctx, `DELETE FROM parked WHERE id = ? RETURNING namespace, tenant, bytes`, id).Scan(&namespace, &tenant, &bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	tx.Freed = true
	tx.space.Add(ledger.Parked, tenant, -bytes)
	tx.after(func(m *memory) { m.addParked(namespace, -1) })
	return err
}
