package source

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
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
	// needed is Start.Needed. The API server no longer has the positions of a replay up to
	// expired.
	needed, expired uint64
	// asked is the position of the API server at the time askedAt, before the watch. The time is
	// zero if an Event after that position has come.
	asked   uint64
	askedAt time.Time
	// window contains changes of a list that are not sent yet.
	window []change

	// failing is true if the last watch failed.
	failing bool
}

func newReader(source *Source, start Start, remembered *counts, out chan<- change) *reader {
	r := &reader{
		source: source,
		client: source.client,
		out:    out,
		counts: remembered,
		progress: progress{
			position: start.Position, time: start.Time, complete: start.CountsKnown,
			until: start.Until, untilTime: start.UntilTime,
		},
		newest: start.Time,
		needed: start.Needed,
	}
	if start.Position == alarm.ResetPosition {
		r.counts.forgetPositions()
		r.progress.reset = true
		r.relist = r.until <= r.position // else it begins a replay: see seedAtPosition
	}
	return r
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
	r.newest = later(r.newest, seen.created)
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
		c.readUpTo = later(c.readUpTo, r.askedAt.Add(-ClockDifference))
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
		r.source.sleep(ctx, max(backoff.Step(), apiwatch.RetryAfter(err)))
	}
}

// connect follows the API server until the watch fails. alive is true if the watch
// brought something or lasted, so that the backoff starts again.
func (r *reader) connect(ctx context.Context) (alive bool, err error) {
	if err := r.prepare(ctx); err != nil {
		return false, err
	}
	body, err := r.open(ctx)
	r.countIdle(err)
	if err != nil {
		r.relist = r.relist || apiwatch.IsExpired(err)
		return false, err
	}
	defer body.Close()
	since := r.connected()
	defer r.disconnected()
	entries, waited, err := r.read(ctx, body)
	r.countIdle(err)
	early := r.source.clock.Since(since) < r.source.earlyClose && errors.Is(err, io.EOF) // a broken connection has another error
	if apiwatch.IsExpired(err) || entries == 0 && (early || apiwatch.IsStatus(err)) {
		r.relist = true
		return false, err
	}
	if errors.Is(err, io.EOF) && waited >= ClockDifference {
		return true, r.caughtUp(ctx)
	}
	return true, err
}

// ClockDifference is the assumed maximum difference between the clocks of this machine and of the
// API server. It is also how late the API server sends an Event at most.
const ClockDifference = 5 * time.Second

// caughtUp reports that all Events were read until shortly before now.
func (r *reader) caughtUp(ctx context.Context) error {
	if r.listing || !r.complete {
		return nil
	}
	return r.emit(ctx, change{readUpTo: r.source.clock.Now().Add(-ClockDifference)})
}

// prepare checks that the position belongs to the history of the API server, and loads
// missing counts. First, it sends the changes of an unfinished list: their counts are already
// remembered, and the history can be another one now.
func (r *reader) prepare(ctx context.Context) error {
	r.askedAt = time.Time{}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.position == 0 {
		return r.seedFromNow(ctx)
	}
	askedAt := r.source.clock.Now()
	current, err := r.client.current(ctx)
	if err != nil {
		return err
	}
	if current < r.lastKnown() {
		return r.behind(ctx, current)
	}
	r.asked, r.askedAt = current, askedAt
	switch {
	case r.relist || r.listing:
		return r.listReplay(ctx)
	case r.complete:
		return nil
	default:
		return r.seedAtPosition(ctx)
	}
}

// open begins the watch, with a list if one is needed.
func (r *reader) open(ctx context.Context) (io.ReadCloser, error) {
	if !r.relist {
		return r.client.watch(ctx, apiwatch.ResumeAt(r.position))
	}
	r.beginList()
	body, err := r.client.watch(ctx, streamingList())
	if !apierrors.IsInvalid(err) {
		return body, err
	}
	// The API server does not support streaming lists.
	if err := r.listPages(ctx, metav1.ListOptions{}); err != nil {
		return nil, err
	}
	return r.client.watch(ctx, apiwatch.ResumeAt(r.position))
}

// read processes entries until the stream ends. It returns their number, and how long it waited for
// the end after the last.
func (r *reader) read(ctx context.Context, body io.Reader) (entries int, waited time.Duration, err error) {
	d := newDecoder(body)
	for {
		since := r.source.clock.Now()
		kind, err := d.next()
		waited = r.source.clock.Since(since)
		switch {
		case errors.Is(err, errMalformed):
			r.skipMalformed(err)
			continue
		case err != nil:
			return entries, waited, err
		case kind == watch.Error:
			return entries, waited, apierrors.FromObject(&d.status)
		}
		entries++
		if err := r.handle(ctx, kind, &d.event); err != nil {
			return entries, waited, err
		}
	}
}

// watchFailed logs the first of several failures as an error.
func (r *reader) watchFailed(err error) {
	if r.failing || apiwatch.IsExpired(err) || errors.Is(err, io.EOF) || errors.Is(err, errRestored) {
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

// countIdle records that a watch was replaced because nothing came.
func (r *reader) countIdle(err error) {
	if errors.Is(err, apiwatch.ErrIdle) {
		r.source.update(func(s *State) { s.IdleReconnects++ })
	}
}

// countEvent records that an Event was read.
func (r *reader) countEvent() {
	now := r.source.clock.Now()
	r.source.update(func(s *State) {
		s.Events++
		s.LastEvent = now
		s.Live = r.counts.events.Len()
	})
}

// skipMalformed logs and counts an Event that cannot be read. Other Events are not
// delayed.
func (r *reader) skipMalformed(err error) {
	r.source.log.Error(err, "An Event could not be understood and is left out")
	r.source.update(func(s *State) { s.Malformed++ })
}
