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

// reader follows the API server and sends the changes.
type reader struct {
	source *Source
	client *client
	out    chan<- change
	counts *counts

	// progress advances with each Event of a watch, but not during a list.
	progress
	// newest is the creation time of the newest Event, including Events of a list.
	newest time.Time

	// relist is true if the next watch must begin with a list. listing is true during the
	// list.
	relist, listing bool
	// window contains changes of a list that are not sent yet.
	window []change

	// failing is true if the last watch failed.
	failing bool
}

func newReader(source *Source, start Start, out chan<- change) (*reader, error) {
	r := &reader{
		source:   source,
		client:   source.client,
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

// locate returns the position of an Event. It skips the Event as malformed if it has
// none.
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

// observe processes an Event that was added or changed, or that a list contains.
func (r *reader) observe(ctx context.Context, e *eventsv1.Event, position uint64) error {
	uid, seen := string(e.UID), observation{position: position, count: countOf(e), created: e.CreationTimestamp.Time}
	r.newest = later(r.newest, seen.created)
	before, remembered := r.counts.get(uid)
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
		c.count = Count{UID: uid, Count: int64(seen.count), Position: position}
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

// connect follows the API server until the watch fails. alive is true if the watch
// brought something or lasted, so that the backoff starts again.
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

// prepare checks that the position belongs to the history of the API server, and loads
// missing counts.
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

// open begins the watch, with a list if one is needed.
func (r *reader) open(ctx context.Context) (io.ReadCloser, error) {
	if !r.relist {
		return r.client.watch(ctx, resumeAt(r.position))
	}
	r.beginList()
	body, err := r.client.watch(ctx, streamingList())
	if !apierrors.IsInvalid(err) {
		return body, err
	}
	// The API server does not support streaming lists.
	if err := r.listPages(ctx); err != nil {
		return nil, err
	}
	return r.client.watch(ctx, resumeAt(r.position))
}

// read processes entries until the stream ends, and returns their number.
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

// isExpired reports whether the API server no longer has the position (410). The error
// can be the status of a response or an entry of a watch.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isStatus reports whether the error is a status of the API server.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// retryAfter returns the delay that the API server asks for.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// watchFailed logs the first of several failures as an error.
func (r *reader) watchFailed(err error) {
	if r.failing || isExpired(err) || errors.Is(err, io.EOF) {
		r.source.log.V(1).Info("The watch of Events ended", "err", err)
		return
	}
	r.failing = true
	r.source.log.Error(err, "Events cannot be watched; retrying")
}

// connected records the start of a watch, and returns its time.
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

// countEvent records that an Event was read.
func (r *reader) countEvent() {
	now := r.source.clock.Now()
	r.source.update(func(s *State) {
		s.Events++
		s.LastEvent = now
		s.Live = r.counts.len()
	})
}

// skipMalformed logs and counts an Event that cannot be read. Other Events are not
// delayed.
func (r *reader) skipMalformed(err error) {
	r.source.log.Error(err, "An Event could not be understood and is left out")
	r.source.update(func(s *State) { s.Malformed++ })
}
