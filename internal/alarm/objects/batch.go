package objects

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

const (
	// maxChanges and maxBytes limit a batch. Baselines count as changes. One object can exceed
	// the bytes.
	maxChanges = 512
	maxBytes   = 1 << 20
	// lastCommit limits the commit after the end of Run.
	lastCommit = 5 * time.Second
)

// batch contains what is read and not committed.
type batch struct {
	changes []alarm.Occurrence
	// put has the new baselines by UID, and deleted the UIDs without one.
	put     map[string]outbox.Baseline
	deleted map[string]bool
	bytes   int
	// since is the time of the first change, zero without one. moved is true if the stream
	// differs from the committed one.
	since time.Time
	moved bool
	lost  string
}

func newBatch() batch {
	return batch{put: map[string]outbox.Baseline{}, deleted: map[string]bool{}}
}

func (b *batch) size() int { return max(len(b.changes), len(b.put)+len(b.deleted)) }

func (b *batch) full() bool { return b.size() >= maxChanges || b.bytes >= maxBytes }

func (b *batch) store(base outbox.Baseline, now time.Time) {
	delete(b.deleted, base.UID)
	b.put[base.UID] = base
	b.add(len(base.Data), now)
}

func (b *batch) remove(uid string, now time.Time) {
	delete(b.put, uid)
	b.deleted[uid] = true
	b.add(len(uid), now)
}

func (b *batch) add(bytes int, now time.Time) {
	b.bytes += bytes
	b.moved = true
	if b.since.IsZero() {
		b.since = now
	}
}

// lookup returns the digest of the last known state of an object, committed or not.
func (w *watcher) lookup(uid string) (digest [16]byte, ok bool) {
	if w.batch.deleted[uid] {
		return digest, false
	}
	if base, ok := w.batch.put[uid]; ok {
		return base.Digest, true
	}
	return w.known.Get(uid)
}

// flushFull commits the batch if it is full.
func (w *watcher) flushFull(ctx context.Context) error {
	if !w.batch.full() {
		return nil
	}
	return w.flush(ctx)
}

// flush commits the batch. It tries again until the handler accepts it or ctx ends.
func (w *watcher) flush(ctx context.Context) error {
	if !w.batch.moved {
		return nil
	}
	b := w.build()
	began := w.source.clock.Now()
	err := apiwatch.Commit(ctx, w.source.clock, apiwatch.Backoff, func() error {
		w.waited += w.source.clock.Since(began)
		began = w.source.clock.Now()
		return w.handle(ctx, b)
	}, w.commitFailed)
	if err == nil {
		w.committed()
	}
	return err
}

func (w *watcher) build() Batch {
	b := Batch{Resource: w.resource, Stream: w.row, Changes: w.batch.changes, Lost: w.batch.lost}
	b.Resource.Version = w.row.Version
	for _, uid := range slices.Sorted(maps.Keys(w.batch.put)) {
		b.Put = append(b.Put, w.batch.put[uid])
	}
	b.Delete = slices.Sorted(maps.Keys(w.batch.deleted))
	return b
}

// committed applies a batch to the memory.
func (w *watcher) committed() {
	for uid, base := range w.batch.put {
		w.known.Set(uid, base.Digest)
	}
	for uid := range w.batch.deleted {
		w.known.Remove(uid)
	}
	w.batch = newBatch()
	w.committedAt = w.source.clock.Now()
	if w.commitFailing {
		w.source.log.Info("Changes are committed again", "resource", w.stream())
		w.commitFailing = false
		w.ok()
	}
}

// commitFailed logs the first of several failures.
func (w *watcher) commitFailed(err error) {
	if !w.commitFailing {
		w.source.log.Error(err, "Changes could not be committed; retrying", "resource", w.stream())
		w.fail(&problemError{Unavailable, "changes of " + w.stream() + " cannot be stored: see the log of the operator"})
	}
	w.commitFailing = true
}

// lastFlush tries once to commit what was read before the end of Run. Otherwise, it is read
// again after the next start.
func (w *watcher) lastFlush(ctx context.Context) {
	if !w.batch.moved || w.commitFailing {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCommit)
	defer cancel()
	if err := w.handle(ctx, w.build()); err != nil {
		w.source.log.V(1).Info("The last changes are read again after the next start", "resource", w.stream(), "err", err)
	}
}

// due returns when the batch must be committed, zero if there is nothing to commit.
func (w *watcher) due() time.Time {
	switch {
	case !w.batch.since.IsZero():
		return w.batch.since.Add(batchTime)
	case w.batch.moved:
		return w.committedAt.Add(positionTime)
	default:
		return time.Time{}
	}
}
