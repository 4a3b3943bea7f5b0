package source

import (
	"context"
	"errors"
	"io"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// reader follows the API server and tells what changed.
type reader struct {
	source *Source
	client *client
	out    chan<- change
	counts *counts

	// progress moves with each Event that a watch brings, and while a list is under
	// way not at all.
	progress
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

// run follows the API server until ctx ends.
func (r *reader) run(ctx context.Context) {
	backoff := r.source.backoff
	for ctx.Err() == nil {
		alive, err := r.connect(ctx)
		if alive {
			backoff = r.source.backoff
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.watchFailed(err)
		r.source.sleep(ctx, max(backoff.Step(), retryAfter(err)))
	}
}

// connect follows the API server until it fails. alive says that the watch came
// about and was worth it.
func (r *reader) connect(ctx context.Context) (alive bool, err error) {
	if err := r.prepare(ctx); err != nil {
		return false, err
	}
	body, err := r.open(ctx)
	if err != nil {
		r.relist = r.relist || isExpired(err)
		return false, err
	}
	defer body.Close()
	since := r.connected()
	defer r.disconnected()
	entries, err := r.read(ctx, body)
	early := r.source.clock.Since(since) < r.source.earlyClose
	if isExpired(err) || entries == 0 && (early || isStatus(err)) {
		r.relist = true
		return false, err
	}
	return true, err
}

// prepare makes sure that there is a position of this API server's history, and
// counts to go with it.
func (r *reader) prepare(ctx context.Context) error {
	if r.position == 0 {
		return r.seedFromNow(ctx)
	}
	current, err := r.client.current(ctx)
	if err != nil {
		return err
	}
	if current < r.position {
		return r.startOver(ctx, current)
	}
	if r.complete || r.relist {
		return nil
	}
	return r.seedAtPosition(ctx)
}

// open begins the watch, with a list where that is needed.
func (r *reader) open(ctx context.Context) (io.ReadCloser, error) {
	if !r.relist {
		return r.client.watch(ctx, resumeAt(r.position))
	}
	r.beginList()
	body, err := r.client.watch(ctx, streamingList())
	if !apierrors.IsInvalid(err) {
		return body, err
	}
	// The API server has no streaming list, or has it switched off.
	if err := r.listPages(ctx); err != nil {
		return nil, err
	}
	return r.client.watch(ctx, resumeAt(r.position))
}

// read takes what comes until the stream ends, and returns how much came.
func (r *reader) read(ctx context.Context, body io.Reader) (entries int, err error) {
	d := newDecoder(body)
	for {
		kind, err := d.next()
		switch {
		case errors.Is(err, errMalformed):
			r.skipMalformed(err)
			continue
		case err != nil:
			return entries, err
		case kind == watch.Error:
			return entries, apierrors.FromObject(&d.status)
		}
		entries++
		if err := r.handle(ctx, kind, &d.event); err != nil {
			return entries, err
		}
	}
}

// isExpired says that the API server no longer has the position: 410, as the
// status of a response or as an object in a watch.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isStatus says that the API server itself reports the error.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// retryAfter returns how long the API server asks to be left alone.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// failed notes that the API server could not be followed, and tells so once.
func (r *reader) watchFailed(err error) {
	if r.failing || isExpired(err) || errors.Is(err, io.EOF) {
		r.source.log.V(1).Info("The watch of Events ended", "err", err)
		return
	}
	r.failing = true
	r.source.log.Error(err, "Events cannot be watched; retrying")
}

// connected notes that a watch has begun, and returns when.
func (r *reader) connected() time.Time {
	now := r.source.clock.Now()
	if r.failing {
		r.source.log.Info("Events are watched again")
	}
	r.failing = false
	r.source.update(func(s *State) {
		s.ConnectedSince = now
		s.Connects++
	})
	return now
}

func (r *reader) disconnected() {
	r.source.update(func(s *State) { s.ConnectedSince = time.Time{} })
}

// noteEvent notes that an Event was read.
func (r *reader) countEvent() {
	now := r.source.clock.Now()
	r.source.update(func(s *State) {
		s.Events++
		s.LastEvent = now
		s.Live = r.counts.len()
	})
}

// malformed leaves out an Event: refusing to go on would lose all others.
func (r *reader) skipMalformed(err error) {
	r.source.log.Error(err, "An Event could not be understood and is left out")
	r.source.update(func(s *State) { s.Malformed++ })
}
