package outbox

import (
	"context"
	"database/sql"
	"errors"
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
	// of their entries.
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
	if size > threeInAPage {
		size *= 2
	}
	size += 512 + len(p.Key) + len(p.Alarm) + 2*len(p.Object) + len(p.Namespace)
	for receiver, key := range p.Receivers {
		size += 128 + 2*len(receiver) + 2*len(key)
	}
	return int64(size)
}

const (
	// parkedShare divides the outbox: this part of it is for parked occurrences, at most
	// maxParkedBytes.
	parkedShare    = 8
	maxParkedBytes = 32 << 20
)

// ParkingSpace returns the bytes that parked occurrences of a tenant use, and the bytes that
// all parked ones leave free.
func (s *Store) ParkingSpace(ctx context.Context, tenant string) (used, free int64, err error) {
	u, err := s.Usage(ctx, tenant, "")
	if err != nil {
		return 0, 0, err
	}
	limit := int64(maxParkedBytes)
	if s.maxBytes > 0 {
		limit = min(limit, s.maxBytes/parkedShare)
	}
	used, all := s.memory.parkedIn(tenant)
	return used, max(0, min(limit-all, u.Free)), nil
}

func (tx *tx) park(ctx context.Context, all []Parked) error {
	for i := range all {
		p := &all[i]
		id, err := tx.insertParked(ctx, p)
		if err != nil {
			return err
		}
		for receiver, key := range p.Receivers {
			if _, err := tx.exec(ctx, `INSERT INTO awaited (receiver, key, position, parked) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				receiver, key, p.Position, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// insertParked returns the ID of the row, which can exist: a replay reads an occurrence again.
func (tx *tx) insertParked(ctx context.Context, p *Parked) (id int64, err error) {
	err = tx.row(ctx, `SELECT id FROM parked WHERE key = ?`, p.Key).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	err = tx.row(ctx, `
		INSERT INTO parked (key, alarm, object, namespace, tenant, position, since, bytes, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		p.Key, p.Alarm, p.Object, p.Namespace, p.Tenant, p.Position, p.Since, p.Bytes(), p.Data).Scan(&id)
	tx.after(func(m *memory) { m.addParked(p.Namespace, p.Tenant, 1, p.Bytes()) })
	return id, err
}

// ParkedNamespaces returns the namespaces with parked occurrences, from memory.
func (s *Store) ParkedNamespaces() []string {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	namespaces := make([]string, 0, len(s.memory.parked))
	for namespace := range s.memory.parked {
		namespaces = append(namespaces, namespace)
	}
	return namespaces
}

// HasParked reports whether an occurrence of the alarm waits for the object.
func (s *Store) HasParked(ctx context.Context, alarmUID, object string) (has bool, err error) {
	s.memory.mu.RLock()
	none := len(s.memory.parked) == 0
	s.memory.mu.RUnlock()
	if none {
		return false, nil
	}
	err = s.readers.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM parked WHERE object = ? AND alarm = ?)`, object, alarmUID).Scan(&has)
	return has, s.read("look for parked occurrences", err)
}

// NextParked returns the next object of a namespace after this one, in the order of their
// names. It is empty after the last.
func (s *Store) NextParked(ctx context.Context, namespace, after string) (object string, err error) {
	err = s.readers.QueryRowContext(ctx, `SELECT object FROM parked WHERE namespace = ? AND object > ? ORDER BY object LIMIT 1`, namespace, after).Scan(&object)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return object, s.read("look for parked occurrences", err)
}

// Parked returns the oldest occurrences that wait for an object, in the order in which they
// were parked.
func (s *Store) Parked(ctx context.Context, namespace, object string, limit int) (all []Parked, err error) {
	rows, err := s.readers.QueryContext(ctx, `
		SELECT id, key, alarm, tenant, position, since, data FROM parked
		WHERE namespace = ? AND object = ? ORDER BY id LIMIT ?`, namespace, object, limit)
	err = each(rows, err, func(rows *sql.Rows) error {
		p := Parked{Object: object, Namespace: namespace}
		err := rows.Scan(&p.ID, &p.Key, &p.Alarm, &p.Tenant, &p.Position, &p.Since, &p.Data)
		all = append(all, p)
		return err
	})
	for i := 0; i < len(all) && err == nil; i++ {
		all[i].Receivers, err = s.awaitedBy(ctx, all[i].ID)
	}
	return all, s.read("read parked occurrences", err)
}

func (s *Store) awaitedBy(ctx context.Context, parked int64) (receivers map[string]string, err error) {
	receivers = map[string]string{}
	rows, err := s.readers.QueryContext(ctx, `SELECT receiver, key FROM awaited WHERE parked = ?`, parked)
	return receivers, each(rows, err, func(rows *sql.Rows) error {
		var receiver, key string
		err := rows.Scan(&receiver, &key)
		receivers[receiver] = key
		return err
	})
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
	tx.after(func(m *memory) { m.addParked(namespace, tenant, -1, -bytes) })
	return err
}

// splitLate divides the entries of a change. Late are those whose position has passed. A replay of
// Events reads those at or below the delivered offset of their receiver, because they waited at the last
// leader.
func (tx *tx) splitLate(ctx context.Context, c *Change) (late, inOrder []Entry, err error) {
	state, err := tx.state(ctx)
	stream := c.Stream
	if c.Objects != nil {
		stream = c.Objects.Stream.Name
	}
	for _, e := range c.Entries {
		e.Stream = stream
		if e.Position == 0 {
			e.Position = state.Position
		}
		isLate := c.Events == nil || c.Events.History == "" && e.Member == nil && e.Position <= state.Delivered.Offset(e.Receiver)
		if isLate {
			late = append(late, e)
		} else {
			inOrder = append(inOrder, e)
		}
	}
	return late, inOrder, err
}

// passed returns the highest position up to which anything was read or delivered.
func (tx *tx) passed(ctx context.Context) (uint64, error) {
	state, err := tx.state(ctx)
	highest := max(state.Position, state.Delivered.Default)
	for _, offset := range state.Delivered.Receivers {
		highest = max(highest, offset)
	}
	return highest, err
}

// insertLate stores entries whose positions have passed. Each gets a position after all
// Events that are read, like the message of a group. Otherwise, it would lower the delivered
// offset of its receiver. An awaited row keeps its own position for the checkpoint.
func (tx *tx) insertLate(ctx context.Context, entries []Entry) error {
	after, err := tx.passed(ctx)
	if err != nil {
		return err
	}
	late := make([]Entry, len(entries))
	for i, e := range entries {
		if e.Member == nil { // else it is in held
			e.Position = after + 1
		}
		late[i] = e
	}
	if err := tx.insertAll(ctx, late); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if e.Member != nil {
			continue
		}
		_, err := tx.exec(ctx, `
			INSERT INTO awaited (receiver, key, position, entry, stream)
			SELECT receiver, key, ?3, id, ?5 FROM entry WHERE receiver = ?1 AND key = ?2 AND position = ?4
			ON CONFLICT (receiver, key) DO UPDATE SET position = excluded.position, entry = excluded.entry, stream = excluded.stream`,
			e.Receiver, e.Key, e.Position, after+1, e.Stream)
		if err != nil {
			return err
		}
	}
	return nil
}

// Waiting is how many Events wait for a receiver, and the lowest of their positions.
type Waiting struct {
	Count  int
	Lowest uint64
}

const countAwaited = `SELECT receiver, count(*), min(position) FROM awaited WHERE stream = '' GROUP BY receiver`

// CountAwaited returns the number of the Events that Awaited returns, by receiver.
func (s *Store) CountAwaited(ctx context.Context) (map[string]Waiting, error) {
	counts := map[string]Waiting{}
	rows, err := s.readers.QueryContext(ctx, countAwaited)
	return counts, s.read("count parked occurrences", each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		var w Waiting
		err := rows.Scan(&receiver, &w.Count, &w.Lowest)
		counts[receiver] = w
		return err
	}))
}

// Awaited returns the Events that are parked, or decided and not yet sent, except those of some
// receivers: by receiver, the position of each Entry.Key.
func (s *Store) Awaited(ctx context.Context, except []string) (map[string]Held, error) {
	keys := map[string]Held{}
	// Nil would be null, and nothing is unequal to null.
	rows, err := s.readers.QueryContext(ctx, `
		SELECT receiver, key, position FROM awaited WHERE stream = '' AND receiver NOT IN (SELECT value FROM json_each(?))`,
		jsonColumn{append([]string{}, except...)})
	return keys, s.read("read parked occurrences", each(rows, err, func(rows *sql.Rows) error {
		var receiver, key string
		var position uint64
		err := rows.Scan(&receiver, &key, &position)
		if keys[receiver] == nil {
			keys[receiver] = Held{}
		}
		keys[receiver][key] = position
		return err
	}))
}

// keepAwaited marks the entries whose occurrences still wait at another leader, for example
// because it could not read their object, or set them aside. dropDelivered then keeps them, although their
// positions have passed.
func (s *Store) keepAwaited(ctx context.Context, delivered DeliveredOffsets) error {
	return s.write(ctx, "keep entries that are not delivered", func(ctx context.Context, tx *tx) error {
		for receiver, held := range delivered.Waiting {
			for key, position := range held {
				_, err := tx.exec(ctx, `
					INSERT INTO awaited (receiver, key, position, entry)
					SELECT receiver, key, ?3, id FROM entry WHERE receiver = ?1 AND key = ?2 AND group_id = '' ON CONFLICT DO NOTHING`,
					receiver, key, position)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// dropAwaited removes the Events that another leader delivered: from the receivers of
// parked ones, and with their entries. It puts the entries that remain, and messages of
// groups, after the handled offsets, so that they do not lower the delivered ones.
func (s *Store) dropAwaited(ctx context.Context, delivered, handled DeliveredOffsets) error {
	return s.write(ctx, "drop delivered parked occurrences", func(ctx context.Context, tx *tx) error {
		if err := tx.dropDeliveredAwaited(ctx, delivered.ofEvents()); err != nil {
			return err
		}
		return tx.raiseLate(ctx, handled)
	})
}

func (tx *tx) dropDeliveredAwaited(ctx context.Context, delivered offsets) error {
	var gone []awaited
	rows, err := tx.query(ctx, `SELECT receiver, key, stream, position, parked, entry FROM awaited`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var a awaited
		err := rows.Scan(&a.receiver, &a.key, &a.stream, &a.position, &a.parked, &a.entry)
		if delivered.cover(a.stream, a.receiver, a.key, a.position) {
			gone = append(gone, a)
		}
		return err
	})
	for i := 0; i < len(gone) && err == nil; i++ {
		err = tx.dropAwaited(ctx, gone[i])
	}
	return err
}

// raiseLate raises the positions of entries that the checkpoint lists by key, those of changes
// included.
func (tx *tx) raiseLate(ctx context.Context, handled DeliveredOffsets) error {
	var receivers []string
	rows, err := tx.query(ctx, `SELECT DISTINCT receiver FROM entry`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var receiver string
		err := rows.Scan(&receiver)
		receivers = append(receivers, receiver)
		return err
	})
	for i := 0; i < len(receivers) && err == nil; i++ {
		err = tx.raiseLateOf(ctx, receivers[i], handled.Offset(receivers[i])+1)
	}
	return err
}

func (tx *tx) raiseLateOf(ctx context.Context, receiver string, position uint64) error {
	_, err := tx.exec(ctx, `
		UPDATE entry SET position = ?2 WHERE receiver = ?1 AND position < ?2
		AND (group_id <> '' OR EXISTS (SELECT 1 FROM awaited WHERE awaited.entry = entry.id))`, receiver, position)
	if err != nil {
		return err
	}
	return tx.removed(ctx, receiver, 0)
}

// awaited is a row of that table.
type awaited struct {
	receiver, key, stream string
	position              uint64
	parked, entry         sql.Null[int64]
}

func (tx *tx) dropAwaited(ctx context.Context, a awaited) error {
	if a.entry.Valid {
		_, err := tx.remove(ctx, a.receiver, []int64{a.entry.V})
		return err
	}
	if _, err := tx.exec(ctx, `DELETE FROM awaited WHERE receiver = ? AND key = ?`, a.receiver, a.key); err != nil {
		return err
	}
	var left bool
	if err := tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM awaited WHERE parked = ?)`, a.parked.V).Scan(&left); left || err != nil {
		return err
	}
	return tx.deleteParked(ctx, a.parked.V)
}
