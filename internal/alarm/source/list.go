package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resetPosition says that a reset has begun and not ended. It is below every
// Event: etcd's first revision is of an empty store.
const resetPosition = 1

// seedNow takes the counts as they stand, and begins there.
func (r *reader) seedFromNow(ctx context.Context) error {
	position, err := r.seed(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	r.position = position
	return r.endSeed(ctx)
}

// seedThen takes the counts as they stood at the position. If the API server no
// longer has them, a list must tell what it can.
func (r *reader) seedAtPosition(ctx context.Context) error {
	opts := resumeAt(r.position)
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	_, err := r.seed(ctx, opts)
	if isExpired(err) {
		r.relist = true
		return nil
	}
	if err != nil {
		return err
	}
	return r.endSeed(ctx)
}

// seed remembers what is listed and tells of none of it.
func (r *reader) seed(ctx context.Context, opts metav1.ListOptions) (uint64, error) {
	r.counts.beginList()
	return r.client.list(ctx, opts, func(e *eventsv1.Event) error {
		position, ok := r.locate(e)
		if !ok {
			return nil
		}
		r.newest = later(r.newest, e.CreationTimestamp.Time)
		r.counts.set(string(e.UID), known{position: position, count: countOf(e)})
		return nil
	})
}

// endSeed hands over all counts at once: half of them would be mistaken for all.
func (r *reader) endSeed(ctx context.Context) error {
	b := &baseline{forget: r.counts.sweep(), counts: make([]Count, 0, r.counts.len())}
	for uid, k := range r.counts.all() {
		b.counts = append(b.counts, Count{UID: uid, Count: int64(k.count), Position: k.position})
	}
	r.complete = true
	r.time = r.newest
	return r.emit(ctx, change{baseline: b})
}

// startOver begins anew with an API server that is behind the position.
func (r *reader) startOver(ctx context.Context, current uint64) error {
	reason := fmt.Sprintf("The API server is at resourceVersion %d, although Events were read up to %d: it was restored from an older copy.", current, r.position)
	r.source.log.Info("Events are read anew", "reason", reason)
	r.source.update(func(s *State) { s.Resets++ })
	r.rewind()
	return r.emit(ctx, change{reset: &Reset{Reason: reason}})
}

// rewind forgets where it was, but not the counts.
func (r *reader) rewind() {
	r.counts.forgetPositions()
	r.position = resetPosition
	r.progress.reset = true
	r.relist = true
}

// beginList expects a list. What an unfinished one left in the window stays: it
// is remembered as told.
func (r *reader) beginList() {
	r.source.log.Info("Events are listed", "position", r.position)
	r.source.update(func(s *State) { s.Relists++ })
	r.counts.beginList()
	r.listing = true
}

// listPages is a list without a watch.
func (r *reader) listPages(ctx context.Context) error {
	position, err := r.client.list(ctx, metav1.ListOptions{}, func(e *eventsv1.Event) error {
		position, ok := r.locate(e)
		if !ok {
			return nil
		}
		return r.observe(ctx, e, position)
	})
	if err != nil {
		return err
	}
	return r.endList(ctx, position)
}

// keep puts c into the window, which is handed over when it is full.
func (r *reader) buffer(ctx context.Context, c change) error {
	r.window = append(r.window, c)
	if len(r.window) < listWindow {
		return nil
	}
	return r.flush(ctx)
}

// flush hands over the window in order of position: a list is in order of names.
func (r *reader) flush(ctx context.Context) error {
	slices.SortStableFunc(r.window, func(a, b change) int {
		return cmp.Compare(a.eventPosition(), b.eventPosition())
	})
	for _, c := range r.window {
		if err := r.emit(ctx, c); err != nil {
			return err
		}
	}
	r.window = nil
	return nil
}

// eventPosition is where the Event that changed stands.
func (c change) eventPosition() uint64 {
	if c.occurrence != nil {
		return c.occurrence.Position
	}
	return c.count.Position
}

// endList hands over the rest, drops what the list did not hold, and only then
// moves on to position.
func (r *reader) endList(ctx context.Context, position uint64) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	for _, uid := range r.counts.sweep() {
		if err := r.emit(ctx, change{forget: uid}); err != nil {
			return err
		}
	}
	r.relist, r.listing, r.progress.reset = false, false, false
	r.complete = true
	return r.record(ctx, change{}, position)
}
