package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resetPosition is the position during a reset. It is before every Event, because the
// first revision of etcd is an empty store.
const resetPosition = 1

// seedFromNow loads the present counts and begins at their position.
func (r *reader) seedFromNow(ctx context.Context) error {
	position, err := r.seed(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	r.position = position
	return r.endSeed(ctx)
}

// seedAtPosition loads the counts as of the position. If the API server no longer has
// them, the next watch begins with a list.
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

// seed lists the Events and remembers their counts. It reports no occurrences.
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

// endSeed sends all counts in one batch. A part of them must not be committed as
// complete.
func (r *reader) endSeed(ctx context.Context) error {
	b := &baseline{forget: r.counts.sweep(), counts: make([]Count, 0, r.counts.len())}
	for uid, k := range r.counts.all() {
		b.counts = append(b.counts, Count{UID: uid, Count: int64(k.count), Position: k.position})
	}
	r.complete = true
	r.time = r.newest
	return r.emit(ctx, change{baseline: b})
}

// startOver begins again if the API server is behind the position.
func (r *reader) startOver(ctx context.Context, current uint64) error {
	reason := fmt.Sprintf("The API server is at resourceVersion %d, but Events were read up to %d: it was restored from an older copy.", current, r.position)
	r.source.log.Info("Events are read again from the start", "reason", reason)
	r.source.update(func(s *State) { s.Resets++ })
	r.rewind()
	return r.emit(ctx, change{reset: &Reset{Reason: reason}})
}

// rewind forgets the position and keeps the counts.
func (r *reader) rewind() {
	r.counts.forgetPositions()
	r.position = resetPosition
	r.progress.reset = true
	r.relist = true
}

// beginList starts a list. Changes of an unfinished list stay in the window, because
// their counts are already remembered.
func (r *reader) beginList() {
	r.source.log.Info("Events are listed", "position", r.position)
	r.source.update(func(s *State) { s.Relists++ })
	r.counts.beginList()
	r.listing = true
}

// listPages lists without a watch.
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

// buffer adds a change to the window, and sends the window when it is full.
func (r *reader) buffer(ctx context.Context, c change) error {
	r.window = append(r.window, c)
	if len(r.window) < listWindow {
		return nil
	}
	return r.flush(ctx)
}

// flush sends the window in order of position. The API server lists by name.
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

// eventPosition is the position of the changed Event.
func (c change) eventPosition() uint64 {
	if c.occurrence != nil {
		return c.occurrence.Position
	}
	return c.count.Position
}

// endList sends the rest of the window, forgets Events that the list did not contain, and
// then sets the position.
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
