package source

import (
	"context"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// reader follows the API server and tells what changed.
type reader struct {
	source *Source
	client *client
	out    chan<- change
	counts *counts

	// vantage moves with each Event that a watch brings, and while a list is under
	// way not at all.
	vantage
	// newest is the creation time of the newest Event seen, also in a list.
	newest time.Time

	// relist says that the next watch must begin with a list, listing that it does.
	relist, listing bool
	// window holds what a list brought and is not yet handed over.
	window []change

	// failing says that the API server could not be followed last time.
	failing bool
}

func newReader(f *Source, start Start, out chan<- change) (*reader, error) {
	r := &reader{
		source:   f,
		client:   f.client,
		out:      out,
		counts:   newCounts(),
		progress: progress{position: start.Position, time: start.Time, complete: start.CountsKnown},
		newest:   start.Time,
	}
	if start.Counts != nil {
		for c, err := range start.Counts {
			if err != nil {
				return nil, err
			}
			r.counts.set(c.UID, known{position: c.Position, count: int32(c.Count)})
		}
	}
	if start.Position == resetPosition {
		r.rewind()
	}
	return r, nil
}

// take tells what an entry of the watch changes.
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

// locate returns the position of e, and notes it if there is none to be had.
func (r *reader) locate(e *eventsv1.Event) (uint64, bool) {
	position, err := parsePosition(e.ResourceVersion)
	if err != nil {
		r.skipMalformed(err)
	}
	return position, err == nil
}

func (r *reader) bookmark(ctx context.Context, e *eventsv1.Event, position uint64) error {
	if r.listing && e.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		return r.endList(ctx, position)
	}
	return r.record(ctx, change{}, position)
}

func (r *reader) forget(ctx context.Context, uid string, position uint64) error {
	r.counts.remove(uid)
	r.countEvent()
	return r.record(ctx, change{forget: uid}, position)
}

// observe tells of an Event that was added or changed, or was there before a
// list.
func (r *reader) observe(ctx context.Context, e *eventsv1.Event, position uint64) error {
	uid, s := string(e.UID), observation{position: position, count: countOf(e), created: e.CreationTimestamp.Time}
	r.newest = later(r.newest, s.created)
	before, remembered := r.counts.get(uid)
	if remembered && position <= before.position {
		r.counts.set(uid, before)
		return nil
	}
	increase := r.firstIncrease(s)
	if remembered {
		increase = before.increase(s)
	}
	r.counts.set(uid, known{position: position, count: s.count})
	r.countEvent()
	var c change
	if increase > 0 {
		c.occurrence = newOccurrence(e, position, increase)
	}
	if before.count != s.count || !r.complete {
		c.count = Count{UID: uid, Count: int64(s.count), Position: position}
	}
	return r.record(ctx, c, position)
}

// tell hands c over, or keeps it for its turn if it is part of a list.
func (r *reader) record(ctx context.Context, c change, position uint64) error {
	if r.listing {
		return r.buffer(ctx, c)
	}
	r.position = max(r.position, position)
	r.time = r.newest
	return r.emit(ctx, c)
}

// emit waits until there is room for c: that holds back the watch.
func (r *reader) emit(ctx context.Context, c change) error {
	c.position, c.time, c.complete = r.position, r.time, r.complete
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

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
