package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// seedFromNow loads the present counts and begins at their position. If the position
// expires during the list, some counts are missing, and the next watch begins with a list.
// If the list does not end, the creation time of the newest Event is unknown, too.
func (r *reader) seedFromNow(ctx context.Context) error {
	position, complete, err := r.seed(ctx, metav1.ListOptions{})
	if apiwatch.IsExpired(err) && position > 0 {
		r.newest, complete, err = time.Time{}, false, nil
	}
	if err != nil {
		return err
	}
	r.position = position
	return r.endSeed(ctx, complete)
}

// seedAtPosition loads the counts as of the position. If the API server no longer has
// them, it lists the Events instead.
func (r *reader) seedAtPosition(ctx context.Context) error {
	_, complete, err := r.seed(ctx, apiwatch.ListAt(r.position))
	if apiwatch.IsExpired(err) {
		return r.listReplay(ctx)
	}
	if err != nil {
		return err
	}
	return r.endSeed(ctx, complete)
}

// listReplay replaces a replay whose position has expired. It lists the Events as of the
// needed position, or else as of the end of the replay. If the API server has neither, the
// next watch begins with a list.
func (r *reader) listReplay(ctx context.Context) error {
	for _, position := range [...]uint64{r.needed, r.until} {
		if position <= max(r.position, r.expired) {
			continue
		}
		r.relist = false
		r.beginList()
		if err := r.listPages(ctx, apiwatch.ListAt(position)); !apiwatch.IsExpired(err) {
			return err
		}
		r.expired = position
	}
	r.relist = true
	return nil
}

// seed lists the Events and remembers their counts. It reports no occurrences. An Event
// that has changed since the position of the list is left out, because its count at that
// position is unknown. The counts are then not complete.
func (r *reader) seed(ctx context.Context, opts metav1.ListOptions) (listed uint64, complete bool, err error) {
	r.counts.events.BeginList()
	complete = true
	listed, err = r.list(ctx, opts, func(e *eventsv1.Event, position, listed uint64) error {
		if position > listed {
			complete = false
			return nil
		}
		r.newest = alarm.Later(r.newest, e.CreationTimestamp.Time)
		r.counts.set(string(e.UID), known{position: position, count: countOf(e)})
		return nil
	})
	return listed, complete, err
}

// list calls each with every Event that has a position, one page in memory, and with the position of
// the list. It returns the latter, also with an error.
func (r *reader) list(ctx context.Context, opts metav1.ListOptions, each func(e *eventsv1.Event, position, listed uint64) error) (listed uint64, err error) {
	_, _, err = r.client.List(ctx, opts, func(page *eventsv1.EventList) error {
		if listed == 0 {
			if listed, err = apiwatch.ParsePosition(page.ResourceVersion); err != nil {
				return err
			}
		}
		for i := range page.Items {
			e := &page.Items[i]
			if position, ok := r.locate(e); ok {
				if err := each(e, position, listed); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return listed, err
}

// endSeed sends all counts. The last change says whether they are complete: a part of
// them must not be committed as complete.
func (r *reader) endSeed(ctx context.Context, complete bool) error {
	r.complete = false
	r.time = r.newest
	if err := r.sweep(ctx); err != nil {
		return err
	}
	for uid, k := range r.counts.all() {
		if err := r.emit(ctx, change{count: alarm.EventCount{UID: uid, Count: int64(k.count), Position: k.position}}); err != nil {
			return err
		}
	}
	r.complete = complete
	return r.emit(ctx, change{})
}

// sweep sends the Events that the list did not contain.
func (r *reader) sweep(ctx context.Context) error {
	return r.counts.sweep(func(uid string) error { return r.emit(ctx, change{forget: uid}) })
}

// errRestored ends a list that belongs to another history than the position.
var errRestored = errors.New("the store of the API server was restored from an older copy")

// contradicts reports whether an Event of a list cannot belong to the history that was
// read. The Event is older than before, or it did not exist at the position. This detects
// a restore of etcd that raised the resourceVersion (etcdutl's --bump-revision).
func (r *reader) contradicts(position uint64, before known, remembered bool) bool {
	if !r.listing || !r.relist { // the list of a replay is older than what is remembered
		return false
	}
	if remembered {
		return position < before.position
	}
	return r.complete && position <= r.position
}

// restored begins again during a list that contradicts what was read.
func (r *reader) restored(ctx context.Context, position uint64) error {
	reason := fmt.Sprintf("An Event is at resourceVersion %d again, but Events were read up to %d: the API server was restored from an older copy.", position, r.position)
	return cmp.Or(r.startOver(ctx, reason), errRestored)
}

// behind begins again if the API server is behind the position.
func (r *reader) behind(ctx context.Context, current uint64) error {
	return r.startOver(ctx, fmt.Sprintf("The API server is at resourceVersion %d, but Events were read up to %d: it was restored from an older copy.", current, r.lastKnown()))
}

// startOver begins a new history.
func (r *reader) startOver(ctx context.Context, reason string) error {
	r.source.log.Info("Events are read again from the start", "reason", reason)
	r.source.update(func(s *State) { s.Resets++ })
	r.rewind()
	return r.emit(ctx, change{reset: &Reset{Reason: reason}})
}

// rewind forgets the position and keeps the counts.
func (r *reader) rewind() {
	r.counts.forgetPositions()
	r.position, r.needed, r.until = alarm.ResetPosition, 0, 0
	r.progress.reset = true
	r.relist = true
}

// beginList starts a list.
func (r *reader) beginList() {
	r.source.log.Info("Events are listed", "position", r.position)
	r.source.update(func(s *State) { s.Relists++ })
	r.counts.events.BeginList()
	r.listing = true
}

// listPages lists without a watch.
func (r *reader) listPages(ctx context.Context, opts metav1.ListOptions) error {
	position, err := r.list(ctx, opts, func(e *eventsv1.Event, position, _ uint64) error { return r.observe(ctx, e, position) })
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

// endList sends the rest of the window, forgets Events that the list did not contain, and
// then sets the position.
func (r *reader) endList(ctx context.Context, position uint64) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	if err := r.sweep(ctx); err != nil {
		return err
	}
	r.relist, r.listing, r.progress.reset = false, false, false
	r.complete = true
	return r.record(ctx, change{}, position)
}
