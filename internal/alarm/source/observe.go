package source

import (
	"context"
	"errors"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// handle processes an entry of the watch.
func (r *reader) handle(ctx context.Context, kind watch.EventType, e *eventsv1.Event) error {
	position, ok := r.locate(e)
	if !ok {
		return nil
	}
	switch kind {
	case watch.Bookmark:
		return r.bookmark(ctx, e, position)
	case watch.Deleted:
		return r.forget(ctx, string(e.UID), position)
	default:
		return r.observe(ctx, e, position)
	}
}

func (r *reader) bookmark(ctx context.Context, e *eventsv1.Event, position uint64) error {
	if r.listing && e.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		if err := r.endList(ctx, position); err != nil {
			return err
		}
		return r.caughtUp(ctx)
	}
	r.position = max(r.position, position)
	return r.caughtUp(ctx)
}

func (r *reader) forget(ctx context.Context, uid string, position uint64) error {
	r.counts.events.Remove(uid)
	r.countEvent()
	return r.record(ctx, change{forget: uid}, position)
}

// observe processes an Event that was added or changed, or that a list contains.
func (r *reader) observe(ctx context.Context, e *eventsv1.Event, position uint64) error {
	uid, seen := string(e.UID), observation{position: position, count: countOf(e), created: e.CreationTimestamp.Time, changed: observedAt(e)}
	r.newest = alarm.Later(r.newest, seen.created)
	before, remembered := r.counts.get(uid)
	if r.contradicts(position, before, remembered) {
		return r.restored(ctx, position)
	}
	if remembered && position <= before.position {
		r.counts.set(uid, before)
		return nil
	}
	increase := r.firstIncrease(seen)
	if remembered {
		increase = before.increase(seen)
	}
	r.counts.set(uid, known{position: position, count: seen.count})
	r.countEvent()
	var c change
	if increase > 0 {
		c.occurrence = newOccurrence(e, position, increase)
	}
	if before.count != seen.count || !r.complete {
		c.count = alarm.EventCount{UID: uid, Count: int64(seen.count), Position: position}
	}
	return r.record(ctx, c, position)
}

// record sends a change, or buffers it during a list.
func (r *reader) record(ctx context.Context, c change, position uint64) error {
	if r.listing {
		return r.buffer(ctx, c)
	}
	r.position = max(r.position, position)
	r.time = r.newest
	return r.emit(ctx, c)
}

// emit sends a change. It blocks while the channel is full, which pauses the watch.
func (r *reader) emit(ctx context.Context, c change) error {
	c.position, c.time, c.complete = r.position, r.time, r.complete
	if r.complete && !r.listing && !r.askedAt.IsZero() && r.position >= r.asked {
		c.readUpTo = alarm.Later(c.readUpTo, r.askedAt.Add(-ClockDifference))
		r.askedAt = time.Time{}
	}
	c.since = r.source.clock.Now()
	if c.occurrence != nil && c.occurrence.ObservedAt.Before(c.since) {
		c.since = c.occurrence.ObservedAt
	}
	select {
	case r.out <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errPosition = errors.New("the position of an Event has more than 63 bits")

// locate returns the position of an Event. It skips the Event as malformed if it has none. So it does
// if the outbox cannot store the position: the batch would be retried for ever.
func (r *reader) locate(e *eventsv1.Event) (uint64, bool) {
	position, err := apiwatch.ParsePosition(e.ResourceVersion)
	if err == nil && position > math.MaxInt64 {
		err = errPosition
	}
	if err != nil {
		r.skipMalformed(err)
	}
	return position, err == nil
}
