package source

import (
	"context"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

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
