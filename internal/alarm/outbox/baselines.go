package outbox

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm/ledger"
)

// Baseline is the last known state of an object.
type Baseline struct {
	// ID identifies the row, in a BaselinePage.
	ID int64
	// UID is the UID of the object. Namespace is empty if the object is cluster-scoped.
	UID, Namespace string
	// Shape is the shape that Data was projected with.
	Shape string
	// Digest identifies the state.
	Digest [16]byte
	// Data is opaque here. It is empty if it had no space.
	Data []byte
}

// Baselines returns the baselines of a stream in no order, without Data and Namespace. The
// sequence ends after an error.
func (s Streams) Baselines(ctx context.Context, stream string) iter.Seq2[Baseline, error] {
	return sequence(ctx, s.core, "read the baselines", func(rows *sql.Rows) (b Baseline, err error) {
		return b, rows.Scan(uidColumn{&b.UID}, digestColumn{&b.Digest}, &b.Shape)
	}, selectBaselines, stream)
}

const (
	selectBaselines = `
		SELECT uid, digest, text FROM stream JOIN baseline ON baseline.stream = stream.id JOIN shape ON shape.id = baseline.shape
		WHERE stream.name = ?`
	selectBaselineData = `
		SELECT namespace, digest, text, data FROM stream JOIN baseline ON baseline.stream = stream.id JOIN shape ON shape.id = baseline.shape
		WHERE stream.name = ?1 AND baseline.uid = ?2`
)

// BaselineData returns baselines by UID, with all fields. Objects without a baseline are not in
// it.
func (s Streams) BaselineData(ctx context.Context, stream string, uids []string) (map[string]Baseline, error) {
	found := map[string]Baseline{}
	for _, uid := range uids {
		b := Baseline{UID: uid}
		err := s.readers.QueryRowContext(ctx, selectBaselineData, stream, packUID(uid)).
			Scan(&b.Namespace, digestColumn{&b.Digest}, &b.Shape, &b.Data)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, s.read("read the baselines", err)
		}
		found[uid] = b
	}
	return found, nil
}

// baselineBytes returns how many bytes a baseline counts for, rounded up from what SQLite uses
// for the row and its index.
func baselineBytes(b *Baseline, withData bool) int64 {
	size := len(b.UID) + len(b.Namespace)
	if withData {
		size += len(b.Data)
	}
	if size > threeInAPage {
		size *= 2
	} else {
		size += size / 2
	}
	return int64(128 + size + len(b.UID))
}

func (tx *tx) putBaselines(ctx context.Context, stream int64, step *ObjectStep) error {
	if len(step.Put) == 0 {
		return nil
	}
	clear(step.Incomplete) // of an attempt that failed
	shapes, omitted := shapeIDs{ids: map[string]int64{}}, map[string]bool{}
	for i := range step.Put {
		b := &step.Put[i]
		shape, err := tx.shape(ctx, &shapes, b.Shape)
		if err != nil {
			return err
		}
		stored, withData, err := tx.putBaseline(ctx, stream, shape, b)
		if err != nil {
			return err
		}
		if !stored {
			omitted[b.Namespace] = true
		}
		if !withData && b.Shape != "" && step.Incomplete != nil {
			step.Incomplete[b.Namespace] = true
		}
	}
	if err := tx.removeShapes(ctx, &shapes); err != nil {
		return err
	}
	return tx.omit(ctx, stream, omitted)
}

const selectBaselineBytes = `SELECT id, namespace, bytes FROM baseline WHERE stream = ?1 AND uid = ?2`

// putBaseline stores a baseline, and reports whether it had space, alone and with its data.
func (tx *tx) putBaseline(ctx context.Context, stream, shape int64, b *Baseline) (stored, withData bool, err error) {
	var id, before int64
	var namespace string
	err = tx.row(ctx, selectBaselineBytes, stream, packUID(b.UID)).Scan(&id, &namespace, &before)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, false, err
	}
	if known && namespace != b.Namespace { // a UID that is not unique
		if err := tx.deleteBaseline(ctx, stream, b.UID); err != nil {
			return false, false, err
		}
		known, before = false, 0
	}
	data, size := b.Data, baselineBytes(b, true)
	if !tx.space.Fits(ledger.Objects, b.Namespace, size-before, leftByData) {
		data, size = nil, baselineBytes(b, false)
	}
	if !tx.space.Fits(ledger.Objects, b.Namespace, size-before, 0) {
		return false, false, nil // it is new: an existing row has the space
	}
	if known {
		_, err = tx.exec(ctx, `UPDATE baseline SET shape = ?, digest = ?, bytes = ?, data = ifnull(?, x'') WHERE id = ?`, shape, b.Digest[:], size, data, id)
	} else {
		_, err = tx.exec(ctx, `INSERT INTO baseline (stream, uid, namespace, shape, digest, bytes, data) VALUES (?, ?, ?, ?, ?, ?, ifnull(?, x''))`,
			stream, packUID(b.UID), b.Namespace, shape, b.Digest[:], size, data)
	}
	tx.space.Add(ledger.Objects, b.Namespace, size-before)
	return err == nil, len(data) > 0, err
}

// shapeIDs are the shapes of a batch by their texts. added is true if one was not stored before.
type shapeIDs struct {
	ids   map[string]int64
	added bool
}

// shape returns the ID of the text of a shape.
func (tx *tx) shape(ctx context.Context, shapes *shapeIDs, text string) (int64, error) {
	id, ok := shapes.ids[text]
	if ok {
		return id, nil
	}
	err := tx.row(ctx, `SELECT id FROM shape WHERE text = ?`, text).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		shapes.added = true
		err = tx.row(ctx, `INSERT INTO shape (text) VALUES (?) RETURNING id`, text).Scan(&id)
	}
	shapes.ids[text] = id
	return id, err
}

// removeShapes removes the shapes that no baseline has, if a batch added some. It reads all
// baselines.
func (tx *tx) removeShapes(ctx context.Context, shapes *shapeIDs) error {
	if !shapes.added {
		return nil
	}
	_, err := tx.exec(ctx, `DELETE FROM shape WHERE id NOT IN (SELECT shape FROM baseline)`)
	return err
}

// omit adds namespaces to those for which a stream has no space.
func (tx *tx) omit(ctx context.Context, stream int64, namespaces map[string]bool) error {
	if len(namespaces) == 0 {
		return nil
	}
	var known []string
	if err := tx.row(ctx, `SELECT omitted FROM stream WHERE id = ?`, stream).Scan(jsonColumn{&known}); err != nil {
		return err
	}
	for namespace := range namespaces {
		known = append(known, namespace)
	}
	slices.Sort(known)
	_, err := tx.exec(ctx, `UPDATE stream SET omitted = ? WHERE id = ?`, jsonColumn{slices.Compact(known)}, stream)
	return err
}

func (tx *tx) deleteBaseline(ctx context.Context, stream int64, uid string) error {
	rows, err := tx.query(ctx, `DELETE FROM baseline WHERE stream = ? AND uid = ? RETURNING namespace, bytes`, stream, packUID(uid))
	_, err = tx.freeBaselines(rows, err)
	return err
}

// freeBaselines subtracts the bytes of deleted rows, and returns their number.
func (tx *tx) freeBaselines(rows *sql.Rows, err error) (deleted int, _ error) {
	return deleted, each(rows, err, func(rows *sql.Rows) error {
		var namespace string
		var bytes int64
		err := rows.Scan(&namespace, &bytes)
		deleted++
		tx.Freed = true
		tx.space.Add(ledger.Objects, namespace, -bytes)
		return err
	})
}

const deleteBaselines = `
	DELETE FROM baseline WHERE id IN (SELECT id FROM baseline WHERE stream = ?1 LIMIT ?2) RETURNING namespace, bytes`

// leftByData: rows with data leave a quarter of the space of a namespace to rows without data.
const leftByData = 4
