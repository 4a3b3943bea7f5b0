package outbox

import (
	"context"
	"database/sql"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
)

// LastingKey identifies a state of an object.
type LastingKey struct {
	// Stream is where the object is read, and UID its UID.
	Stream, UID string
	// Alarm is the UID of the alarm, and State the ID of one of its states.
	Alarm, State string
}

// Lasting is a state of an object that holds, or held and has not ended.
type Lasting struct {
	LastingKey
	// ID identifies the row, in a page.
	ID int64
	// Namespace contains the object. It is empty if the object is cluster-scoped.
	Namespace string
	// Since is when the state began. Fired is true if it was reported. Due is when it can be reported, or when a
	// reported one can end; zero if only a change of the object can end it.
	Since time.Time
	Fired bool
	Due   time.Time
	// Position is where the stream was when the state was reported.
	Position uint64
	// Group is the group of the report.
	Group string
	// Restored is true if another leader reported the state, and the outbox has not its group yet.
	Restored bool
	// Data is opaque here.
	Data []byte
}

// LastingChanges are changes of states.
type LastingChanges struct {
	Put    []Lasting
	Delete []LastingKey
}

func (tx *tx) changeLasting(ctx context.Context, changes LastingChanges) error {
	for _, key := range changes.Delete {
		if err := tx.deleteLasting(ctx, key); err != nil {
			return err
		}
	}
	for i := range changes.Put {
		if err := tx.putLasting(ctx, &changes.Put[i]); err != nil {
			return err
		}
	}
	return nil
}

func (tx *tx) deleteLasting(ctx context.Context, key LastingKey) error {
	rows, err := tx.query(ctx, `DELETE FROM lasting WHERE stream = ? AND uid = ? AND alarm = ? AND state = ? RETURNING namespace, bytes`,
		key.Stream, packUID(key.UID), key.Alarm, key.State)
	return each(rows, err, func(rows *sql.Rows) error {
		var namespace string
		var bytes int64
		err := rows.Scan(&namespace, &bytes)
		tx.Freed = true
		tx.space.Add(ledger.Objects, namespace, -bytes)
		tx.space.Add(ledger.States, namespace, -1)
		return err
	})
}

// LastingBytes returns how many bytes a state counts for, rounded up from what SQLite uses for
// the row and its indexes.
func LastingBytes(l *Lasting) int64 {
	size := len(l.Namespace) + len(l.Data) + len(l.Group)*2 + 2*(len(l.Stream)+len(l.UID)+len(l.Alarm)+len(l.State))
	return int64(256 + size + size/2)
}

func (tx *tx) putLasting(ctx context.Context, l *Lasting) error {
	if err := tx.deleteLasting(ctx, l.LastingKey); err != nil {
		return err
	}
	bytes := LastingBytes(l)
	_, err := tx.exec(ctx, `
		INSERT INTO lasting (stream, uid, alarm, state, namespace, since, fired, due, position, group_id, restored, bytes, data)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ifnull(?, x''))`,
		l.Stream, packUID(l.UID), l.Alarm, l.State, l.Namespace, micros(l.Since), l.Fired, micros(l.Due), l.Position, l.Group, l.Restored, bytes, l.Data)
	tx.space.Add(ledger.Objects, l.Namespace, bytes)
	tx.space.Add(ledger.States, l.Namespace, 1)
	return err
}

const selectLasting = `SELECT id, stream, uid, alarm, state, namespace, since, fired, due, position, group_id, restored, data FROM lasting `

func scanLasting(rows *sql.Rows, all *[]Lasting) error {
	var l Lasting
	err := rows.Scan(&l.ID, &l.Stream, uidColumn{&l.UID}, &l.Alarm, &l.State, &l.Namespace, timestamp{&l.Since}, &l.Fired, timestamp{&l.Due}, &l.Position, &l.Group, &l.Restored, &l.Data)
	*all = append(*all, l)
	return err
}

func (s *core) lasting(ctx context.Context, where string, args ...any) (all []Lasting, err error) {
	rows, err := s.readers.QueryContext(ctx, selectLasting+where, args...)
	return all, s.read("read the states", each(rows, err, func(rows *sql.Rows) error { return scanLasting(rows, &all) }))
}

// Of returns the states of an object that hold.
func (s States) Of(ctx context.Context, stream, uid string) ([]Lasting, error) {
	return s.lasting(ctx, `WHERE stream = ? AND uid = ?`, stream, packUID(uid))
}

// Page returns the states after an ID, at most limit. If until is set, it returns those that are due
// until then, and not since an earlier time.
func (s States) Page(ctx context.Context, since, until time.Time, after int64, limit int) ([]Lasting, error) {
	if until.IsZero() {
		return s.lasting(ctx, `WHERE id > ? ORDER BY id LIMIT ?`, after, limit)
	}
	return s.lasting(ctx, `WHERE due > 0 AND due > ? AND due <= ? AND id > ? ORDER BY id LIMIT ?`, micros(since), micros(until), after, limit)
}

// Next returns when the next state after a time is due, zero if there is none.
func (s States) Next(ctx context.Context, after time.Time) (due time.Time, err error) {
	var next sql.Null[int64]
	err = s.readers.QueryRowContext(ctx, `SELECT min(due) FROM lasting WHERE due > ?`, micros(after)).Scan(&next)
	if next.Valid {
		due = time.UnixMicro(next.V).UTC()
	}
	return due, s.read("read the next state", err)
}

// Open returns states that were reported, at most limit: the newest of each namespace. If
// there are more, each namespace gets the same number.
func (s States) Open(ctx context.Context, limit int) ([]Lasting, error) {
	if s.memory.space.Sum(ledger.States) <= int64(limit) {
		return s.lasting(ctx, `WHERE fired ORDER BY id DESC`)
	}
	return s.lasting(ctx, `
		JOIN (SELECT id AS of, row_number() OVER (PARTITION BY namespace ORDER BY id DESC) AS n FROM lasting WHERE fired) ON of = id
		ORDER BY n, id DESC LIMIT ?`, limit)
}

// InGroup returns how many states of a group were reported and have not ended.
func (s States) InGroup(ctx context.Context, group string) (n int64, err error) {
	err = s.readers.QueryRowContext(ctx, `SELECT count(*) FROM lasting WHERE fired AND group_id = ?`, group).Scan(&n)
	return n, s.read("count the states of a group", err)
}

const selectBaselinePage = `
	SELECT baseline.id, uid, namespace, digest, text, data FROM baseline JOIN shape ON shape.id = baseline.shape
	WHERE +baseline.stream = (SELECT id FROM stream WHERE name = ?1) AND baseline.id > ?2
		AND (?3 = 'null' OR namespace IN (SELECT value FROM json_each(?3))) ORDER BY baseline.id LIMIT ?4`

// BaselinePage returns baselines of a stream with all fields: the first ones after an ID, at most
// limit. They are from some namespaces, or from all if namespaces is nil.
func (s Streams) BaselinePage(ctx context.Context, stream string, namespaces []string, after int64, limit int) (all []Baseline, err error) {
	rows, err := s.readers.QueryContext(ctx, selectBaselinePage, stream, after, jsonColumn{namespaces}, limit)
	return all, s.read("read the baselines", each(rows, err, func(rows *sql.Rows) error {
		var b Baseline
		err := rows.Scan(&b.ID, uidColumn{&b.UID}, &b.Namespace, digestColumn{&b.Digest}, &b.Shape, &b.Data)
		all = append(all, b)
		return err
	}))
}
