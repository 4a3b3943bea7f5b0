package source

import (
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// run follows the API server until ctx ends.
func (r *reader) run(ctx context.Context) {
	apiwatch.Loop(ctx, r.source.clock, r.source.backoff, r.connect, r.watchFailed)
}

// connect follows the API server until the watch fails. alive is true if the watch
// brought something or lasted, so that the backoff starts again.
func (r *reader) connect(ctx context.Context) (alive bool, err error) {
	if err := r.prepare(ctx); err != nil {
		return false, err
	}
	body, err := r.open(ctx)
	if err != nil {
		r.relist = r.relist || apiwatch.IsExpired(err)
		return false, err
	}
	defer body.Close()
	since := r.connected()
	defer r.disconnected()
	entries, waited, err := r.read(ctx, body)
	r.countIdle(err)
	expired, alive := apiwatch.Ended(err, entries, r.source.clock.Since(since) < r.source.earlyClose)
	if expired {
		r.relist = true
	} else if errors.Is(err, io.EOF) && waited >= ClockDifference {
		return alive, r.caughtUp(ctx)
	}
	return alive, err
}

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
	current, err := r.client.Current(ctx)
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
		return r.client.Watch(ctx, apiwatch.ResumeAt(r.position))
	}
	r.beginList()
	body, err := r.client.Watch(ctx, streamingList())
	if !apierrors.IsInvalid(err) {
		return body, err
	}
	// The API server does not support streaming lists.
	if err := r.listPages(ctx, metav1.ListOptions{}); err != nil {
		return nil, err
	}
	return r.client.Watch(ctx, apiwatch.ResumeAt(r.position))
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
func (r *reader) watchFailed(err error) time.Duration {
	if r.failing || apiwatch.IsExpired(err) || errors.Is(err, io.EOF) || errors.Is(err, errRestored) {
		r.source.log.V(1).Info("The watch of Events ended", "err", err)
		return 0
	}
	r.failing = true
	r.source.log.Error(err, "Events cannot be watched; retrying")
	return 0
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
