package outbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// Stream is what is stored of the changes of one resource.
type Stream struct {
	// Name identifies the stream: see alarm.Resource.Stream.
	Name string
	// Version is the API version in which the objects of the baseline were read.
	Version string
	// Shape is the present shape of the baseline.
	Shape string
	// Position is the resourceVersion up to which changes are committed.
	Position uint64
	// Time is when the stream was known to be current, with microseconds.
	Time time.Time
	// Complete is true if the baseline contains all objects as of Position. Otherwise, the
	// objects must be listed: as of one of Begins, or as of now if there is none that the API
	// server still has.
	Complete bool
	// Delivered contains the delivered offsets of the last Replay. Commit removes
	// them when Position has passed them.
	Delivered progress.Offsets
	// Omitted are the namespaces with objects for which the baseline had no space. It is unknown
	// whether an object of such a namespace is new if it has no baseline.
	Omitted []string
}

// Begins returns the positions at which a source can begin that has no baseline, lowest first.
// The first one loses nothing. The API server can have removed it, because one receiver can wait
// very long. Each later one loses only the messages that waited at or below it. The last one is
// where the last leader stopped. It is empty if the source begins from now.
func (s *Stream) Begins() []uint64 {
	if s.Position == 0 {
		return nil
	}
	positions := []uint64{s.Position, max(s.Position, s.Delivered.Position)}
	for _, held := range s.Delivered.Waiting {
		for _, position := range held {
			if before := position - 1; before > s.Position && before < s.Delivered.Position {
				positions = append(positions, before)
			}
		}
	}
	slices.Sort(positions)
	return slices.Compact(positions)
}

// ObjectStep moves the stream of a resource.
type ObjectStep struct {
	// Stream replaces the row of the stream, except Omitted. The position can be an earlier one.
	Stream Stream
	// Put replaces the baselines of the same UIDs. A baseline that has no space is stored without
	// Data. If the rows of its namespace have no space at all, it is removed, and the namespace is in
	// Stream.Omitted. Delete contains the UIDs of objects that do not exist any more.
	Put    []Baseline
	Delete []string
	// Incomplete, if it is not nil, gets namespaces. A new baseline with a Shape was stored there
	// without Data, or not at all.
	Incomplete map[string]bool
}

// putObjects stores the row of a stream and its baselines.
func (tx *tx) putObjects(ctx context.Context, step *ObjectStep) error {
	if step == nil {
		return nil
	}
	id, err := tx.putStream(ctx, step.Stream)
	if err != nil {
		return err
	}
	for _, uid := range step.Delete {
		if err := tx.deleteBaseline(ctx, id, uid); err != nil {
			return err
		}
	}
	return tx.putBaselines(ctx, id, step)
}

const selectStreams = `SELECT name, version, shape, position, time, complete, delivered, omitted FROM stream WHERE id > 0`

// All returns all streams by name.
func (s Streams) All(ctx context.Context) (map[string]Stream, error) {
	streams := map[string]Stream{}
	rows, err := s.readers.QueryContext(ctx, selectStreams)
	return streams, s.read("read the streams", each(rows, err, func(rows *sql.Rows) error {
		var r Stream
		err := rows.Scan(&r.Name, &r.Version, &r.Shape, &r.Position, timestamp{&r.Time}, &r.Complete, jsonColumn{&r.Delivered}, jsonColumn{&r.Omitted})
		streams[r.Name] = r
		return err
	}))
}

// putStream stores the row of a stream, and returns its ID.
func (tx *tx) putStream(ctx context.Context, r Stream) (id int64, err error) {
	if r.Delivered.PassedBy(r.Position) {
		r.Delivered = progress.Offsets{}
	}
	err = tx.row(ctx, `
		INSERT INTO stream (name, version, shape, position, time, complete, delivered) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET version = excluded.version, shape = excluded.shape, position = excluded.position,
			time = excluded.time, complete = excluded.complete, delivered = excluded.delivered
		RETURNING id`,
		r.Name, r.Version, r.Shape, r.Position, micros(r.Time), r.Complete, jsonColumn{r.Delivered}).Scan(&id)
	return id, err
}

// Drop removes a stream that no alarm needs, with its baselines. Messages of its changes
// stay. It removes the baselines in chunks. After a crash in between, the stream begins from now.
func (s Streams) Drop(ctx context.Context, name string) error {
	_, err := s.steps(ctx, "drop a stream", func(ctx context.Context, tx *tx) (Counts, bool, error) {
		done, err := tx.dropStream(ctx, name)
		return nil, done, err
	})
	return err
}

// forgetStreams removes all streams but that of Events.
func (tx *tx) forgetStreams(ctx context.Context) error {
	if err := tx.empty(ctx, "baseline", "shape", "lasting"); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `DELETE FROM stream WHERE id > 0`)
	return err
}

// dropStream removes a chunk.
func (tx *tx) dropStream(ctx context.Context, name string) (done bool, err error) {
	var id int64
	err = tx.row(ctx, `UPDATE stream SET position = 0, complete = 0 WHERE name = ? RETURNING id`, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	rows, err := tx.query(ctx, deleteBaselines, id, chunk)
	deleted, err := tx.freeBaselines(rows, err)
	if deleted == chunk || err != nil {
		return false, err
	}
	_, err = tx.exec(ctx, `DELETE FROM stream WHERE id = ?`, id)
	return true, err
}
