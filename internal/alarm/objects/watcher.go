package objects

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
	"github.com/bongsu-io/bongsu/internal/alarm/live"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
	"github.com/bongsu-io/bongsu/internal/alarm/progress"
)

// watcher reads the changes of one resource.
type watcher struct {
	source *Source
	client *client
	handle Handler
	// resource is what alarms ask for. Its version can be empty.
	resource alarm.Resource

	// endAt is when the watch ends that no alarm needs, zero if one does. It belongs to Run.
	endAt time.Time

	cancel context.CancelFunc
	done   sync.WaitGroup
	wake   chan struct{}
	mu     sync.Mutex
	wanted *shapes

	// The following belong to the goroutine of run.

	// kind is how the resource is served.
	kind alarm.Served
	// onlyMetadata is true if only the metadata of objects is read.
	onlyMetadata bool
	// shapes say what new baselines contain.
	shapes *shapes
	// reshapeAt is when wanted replaces shapes, zero if they are equal.
	reshapeAt time.Time
	// paused is true after the pause before the first list.
	paused bool
	// current is the newest position of the API server before the last list or watch that
	// continues at a position.
	current uint64
	// waited is how long failed commits and the waits after them took during a list.
	waited time.Duration
	// loaded is true if row and known have what is stored.
	loaded bool
	// row is the stream after the batch.
	row outbox.Stream
	// known has the digest of the shape and the content of each object, which is zero if no alarm
	// needs it. BenchmarkKnown measures its memory.
	known live.Set[[16]byte]
	batch batch
	// relist is true if the objects must be compared with their baselines. listing is true
	// during a list.
	relist, listing bool
	committedAt     time.Time
	// failing and commitFailing are true after a logged failure.
	failing, commitFailing bool
	// forbidden is the backoff while the API server refuses the permission.
	forbidden wait.Backoff
}

// start starts a watch.
func (s *Source) start(ctx context.Context, c choice, handle Handler) (*watcher, error) {
	own, err := apiwatch.NewClient(s.cfg, runtime.ContentTypeJSON, readList)
	if err != nil {
		return nil, err
	}
	own.PageSize = cmp.Or(s.pageSize, own.PageSize)
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{
		source: s, client: own, handle: handle, resource: c.resource, wanted: c.shapes,
		cancel: cancel, wake: make(chan struct{}, 1), batch: newBatch(), forbidden: forbiddenBackoff,
	}
	w.done.Go(func() { w.run(ctx) })
	return w, nil
}

// stop ends the watch and waits for its end.
func (w *watcher) stop() {
	w.cancel()
	w.done.Wait()
}

// reshape sets the fields that alarms need.
func (w *watcher) reshape(wanted *shapes) {
	w.mu.Lock()
	changed := w.wanted.id != wanted.id
	w.wanted = wanted
	w.mu.Unlock()
	if changed {
		notify(w.wake)
	}
}

func (w *watcher) stream() string { return w.resource.Stream() }

func (w *watcher) apiVersion() string {
	if w.resource.Group == "" {
		return w.kind.Version
	}
	return w.resource.Group + "/" + w.kind.Version
}

// run follows the API server until ctx ends.
func (w *watcher) run(ctx context.Context) {
	defer w.client.Close()
	apiwatch.Loop(ctx, w.source.clock, apiwatch.Backoff, w.connect, w.connectFailed)
	w.lastFlush(ctx)
}

// connectFailed reports a failure, and logs the first of several. It returns the pause, which is 0
// for the backoff.
func (w *watcher) connectFailed(err error) (pause time.Duration) {
	if apierrors.IsNotFound(err) { // it is not served any more, or in another version
		w.source.catalog.expire()
	}
	if apiwatch.IsExpired(err) || errors.Is(err, io.EOF) {
		w.source.log.V(1).Info("The watch of changes ended", "resource", w.stream(), "err", err)
		return 0
	}
	p := problemOf(w.resource, err)
	if !w.failing {
		w.source.log.Error(err, "Changes cannot be read; retrying", "resource", w.stream())
	}
	w.failing = true
	w.fail(p)
	switch p.reason {
	case Forbidden:
		return w.forbidden.Step()
	case KindNotFound, Excluded:
		return w.source.missing
	default:
		return 0
	}
}

// fail sets the problem of the status.
func (w *watcher) fail(p *problemError) {
	w.source.report(w.stream(), func(s *Status) { s.Reason, s.Message = p.reason, p.message })
}

// ok removes the problem of the status.
func (w *watcher) ok() {
	w.source.report(w.stream(), func(s *Status) { s.Synced, s.Reason, s.Message = true, "", "" })
}

// connect follows the API server until the watch fails, or until other fields are needed. alive
// is true if the watch brought something or lasted, so that the backoff starts again.
func (w *watcher) connect(ctx context.Context) (alive bool, err error) {
	if err := w.prepare(ctx); err != nil {
		return false, err
	}
	again, err := w.list(ctx)
	if err != nil || again {
		return again, err
	}
	body, err := w.client.Watch(ctx, apiwatch.ResumeAt(w.row.Position))
	if err != nil {
		w.relist = w.relist || apiwatch.IsExpired(err)
		return false, err
	}
	w.connected()
	since := w.source.clock.Now()
	entries, err := w.follow(ctx, body)
	if flushErr := w.flush(ctx); flushErr != nil { // the API server can be down for long
		return false, flushErr
	}
	if errors.Is(err, errReshaped) {
		return true, nil
	}
	expired, alive := apiwatch.Ended(err, entries, w.source.clock.Since(since) < apiwatch.EarlyClose)
	w.relist = w.relist || expired
	return alive, err
}

func (w *watcher) connected() {
	if w.failing {
		w.source.log.Info("Changes are read again", "resource", w.stream())
	}
	w.failing, w.forbidden = false, forbiddenBackoff
	w.ok()
	w.source.keeps(w.stream(), w.shapes)
}

// prepare finds out how the resource is served, loads what is stored, and sets the shape.
func (w *watcher) prepare(ctx context.Context) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	found, err := w.find(ctx)
	if err != nil {
		return err
	}
	w.kind = found
	w.source.report(w.stream(), func(s *Status) { s.Served = found })
	if w.row.Version != found.Version { // another version can have other fields
		if w.row.Complete {
			w.batch.lost = w.stream() + " is read in version " + found.Version + ", because version " + w.row.Version + " is no longer served: some changes can be lost."
		}
		w.row.Version, w.row.Position, w.row.Complete = found.Version, 0, false
	}
	w.adopt()
	served := w.resource
	served.Version = found.Version
	w.onlyMetadata = w.shapes.onlyMetadata() || isSecrets(served)
	target(w.client, served, w.onlyMetadata)
	if w.row.Position == 0 {
		return nil
	}
	current, err := w.client.Current(ctx)
	if err != nil {
		return err
	}
	w.current = current
	if current < w.row.Position {
		w.source.log.Info("The API server is behind: it was restored from an older copy", "resource", w.stream(), "position", w.row.Position, "current", current)
		w.relist = true
	}
	if current < w.row.Delivered.Position {
		w.row.Delivered = progress.Offsets{} // of the history that ended
	}
	return nil
}

// find returns how the resource is served. The version of the baseline is kept as long as it is
// served, because the objects cannot be compared across versions.
func (w *watcher) find(ctx context.Context) (alarm.Served, error) {
	atMost := w.source.missing * 9 / 10
	if w.row.Version == "" {
		return w.source.catalog.find(ctx, w.resource, watching, atMost)
	}
	kept := w.resource
	kept.Version = w.row.Version
	found, err := w.source.catalog.find(ctx, kept, watching, atMost)
	if p := (*problemError)(nil); errors.As(err, &p) && p.reason == KindNotFound {
		return w.source.catalog.find(ctx, w.resource, watching, atMost)
	}
	return found, err
}

// adopt sets the shapes to what alarms need, if that is due.
func (w *watcher) adopt() {
	wanted := w.planReshape()
	if now := w.source.clock.Now(); w.shapes != nil && (w.reshapeAt.IsZero() || now.Before(w.reshapeAt)) {
		return
	}
	w.shapes, w.reshapeAt = wanted, time.Time{}
}

// planReshape decides when other fields are kept, because all objects must be listed then.
// Tenants can change alarms often. Therefore, lists take at most a tenth of the time, and fields
// that are no longer needed are kept for a while.
func (w *watcher) planReshape() (wanted *shapes) {
	w.mu.Lock()
	wanted = w.wanted
	w.mu.Unlock()
	if w.shapes == nil || wanted.id == w.shapes.id {
		w.reshapeAt = time.Time{}
		return wanted
	}
	at := w.source.clock.Now()
	if w.shapes.keepsAll(wanted) {
		at = at.Add(linger)
	}
	at = alarm.Later(at, w.source.pauseEnd(w.stream()))
	if w.reshapeAt.IsZero() || at.Before(w.reshapeAt) {
		w.reshapeAt = at
	}
	return wanted
}

// load reads what is stored, once.
func (w *watcher) load(ctx context.Context) error {
	if w.loaded {
		return nil
	}
	streams, err := w.source.store.All(ctx)
	if err != nil {
		return err
	}
	w.known = live.Set[[16]byte]{}
	for base, err := range w.source.store.Baselines(ctx, w.stream()) {
		if err != nil {
			return err
		}
		w.known.Set(base.UID, base.Digest)
	}
	w.row = streams[w.stream()]
	w.row.Name = w.stream()
	w.relist = len(w.row.Omitted) > 0 // memory must know all objects
	w.loaded = true
	w.committedAt = w.source.clock.Now()
	return nil
}

// list lists the objects if that is needed. again is true if another list is needed.
func (w *watcher) list(ctx context.Context) (again bool, err error) {
	switch {
	case !w.row.Complete && w.row.Position > 0:
		return w.listThen(ctx)
	case w.row.Complete && !w.relist && w.row.Shape == w.shapes.id:
		return false, nil
	case !w.paused:
		w.pause(ctx)
		return true, nil
	default:
		return w.listNow(ctx, !w.row.Complete)
	}
}

// pause waits for the end of the pause of the stream. A former watcher can have caused it.
func (w *watcher) pause(ctx context.Context) {
	alarm.Sleep(ctx, w.source.clock, w.source.pauseEnd(w.stream()).Sub(w.source.clock.Now()))
	w.paused = ctx.Err() == nil
}

// listNow lists the present objects. They become the baseline if quiet is true. Otherwise, they
// are compared with it.
func (w *watcher) listNow(ctx context.Context, quiet bool) (again bool, err error) {
	began := w.source.clock.Now()
	w.waited = 0
	defer func() { w.source.listed(w.stream(), w.source.clock.Since(began)-w.waited) }()
	if w.row.Shape != w.shapes.id {
		w.row.Shape = "" // from now on, baselines can have either shape
	}
	position, renewed, err := w.listObjects(ctx, metav1.ListOptions{}, quiet)
	if err != nil {
		return false, err
	}
	w.relist = renewed
	return renewed, w.endList(ctx, position, began)
}

// listThen lists the objects as of a position that another replica read up to. If the API server
// no longer has any, the present objects become the baseline.
func (w *watcher) listThen(ctx context.Context) (again bool, err error) {
	for i, begin := range w.row.Begins() {
		if i > 0 {
			w.lose()
		}
		position, _, err := w.listObjects(ctx, apiwatch.ListAt(begin), true)
		if err == nil {
			if position != begin { // an aggregated API can list the present objects only
				w.lose()
			}
			return false, w.endList(ctx, position, w.row.Time)
		}
		// A cache of the API server that is late also answers that a position is too large.
		if !apiwatch.IsExpired(err) && (!isTooLarge(err) || begin <= w.current) {
			return false, err
		}
	}
	w.lose()
	w.row.Position, w.row.Delivered = 0, progress.Offsets{}
	w.batch.moved = true
	return true, w.flush(ctx)
}

// lose records that changes can be lost.
func (w *watcher) lose() {
	w.batch.lost = "The API server no longer has the state of " + w.stream() + " up to which changes were read: some later changes can be lost."
	w.source.log.Info("Changes can be lost, because the position has expired", "resource", w.stream(), "position", w.row.Position)
}

// isTooLarge reports whether a position is after the newest one of the API server.
func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// listObjects processes the objects of a list, and then those that it did not contain.
func (w *watcher) listObjects(ctx context.Context, opts metav1.ListOptions, quiet bool) (position uint64, renewed bool, err error) {
	w.source.log.V(1).Info("Objects are listed", "resource", w.stream(), "baseline", quiet)
	w.listing = true
	defer func() { w.listing = false }()
	if err := w.flush(ctx); err != nil {
		return 0, false, err
	}
	w.known.BeginList()
	position, renewed, err = w.client.List(ctx, opts, func(raw []byte) error { return w.observe(ctx, raw, quiet) })
	if err != nil {
		return 0, false, err
	}
	if err := w.flush(ctx); err != nil {
		return 0, false, err
	}
	for uid := range w.known.Unlisted() {
		if quiet {
			w.batch.remove(uid, w.source.clock.Now())
			err = w.flushFull(ctx)
		} else {
			err = w.gone(ctx, uid, position)
		}
		if err != nil {
			return 0, false, err
		}
	}
	return position, renewed, nil
}

// endList commits the rest of a list together with the position.
func (w *watcher) endList(ctx context.Context, position uint64, current time.Time) error {
	w.row.Position, w.row.Complete, w.row.Shape = position, true, w.shapes.id
	w.row.Omitted = nil // memory knows all objects now
	w.row.Time = w.limit(current)
	w.batch.moved = true
	return w.flush(ctx)
}

// errReshaped ends a watch because other fields are needed.
var errReshaped = errors.New("other fields are needed")

// frame is an entry of a watch that was read, or the error that ended the watch.
type frame struct {
	raw []byte
	err error
}

// follow processes entries until the watch ends, and returns their number. It closes the body.
func (w *watcher) follow(ctx context.Context, body io.ReadCloser) (entries int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	frames := make(chan frame)
	var reading sync.WaitGroup
	reading.Go(func() { readFrames(ctx, body, frames) })
	defer func() {
		cancel()
		_ = body.Close() // it was only read
		reading.Wait()
	}()
	var timer <-chan time.Time
	var armed time.Time
	for {
		if due := alarm.Earlier(w.due(), w.reshapeAt); !due.Equal(armed) {
			armed, timer = due, w.after(due)
		}
		select {
		case f := <-frames:
			if err = w.process(ctx, f); err == nil {
				entries++
			}
		case <-timer:
			armed = time.Time{}
			err = w.onTimer(ctx)
		case <-w.wake:
			w.planReshape()
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return entries, err
		}
	}
}

// after returns a channel that has a value at a time, or nil for the zero time.
func (w *watcher) after(due time.Time) <-chan time.Time {
	if due.IsZero() {
		return nil
	}
	return w.source.clock.After(due.Sub(w.source.clock.Now()))
}

// onTimer does what is due. It returns errReshaped if other fields must be kept.
func (w *watcher) onTimer(ctx context.Context) error {
	now := w.source.clock.Now()
	if !w.reshapeAt.IsZero() && !now.Before(w.reshapeAt) {
		return errReshaped
	}
	if now.Before(w.due()) {
		return nil
	}
	return w.flush(ctx)
}

// readFrames sends the entries of a watch. It reads the next one while the last is processed.
func readFrames(ctx context.Context, body io.Reader, frames chan<- frame) {
	r := newValueReader(body)
	var processed []byte // the memory of the entry before the last
	for {
		raw, err := r.next()
		select {
		case frames <- frame{raw, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		r.buf, processed = processed, r.buf
	}
}

// process processes an entry of a watch.
func (w *watcher) process(ctx context.Context, f frame) error {
	if f.err != nil {
		return f.err
	}
	e, err := parseEntry(f.raw)
	if err != nil {
		return err
	}
	switch watch.EventType(e.kind) {
	case watch.Added, watch.Modified:
		return w.observe(ctx, e.object, false)
	case watch.Deleted:
		return w.removed(ctx, e.object)
	case watch.Bookmark:
		position, err := bookmarkPosition(e.object)
		if err != nil {
			return err
		}
		w.moved(position, w.limit(w.source.clock.Now()))
		return nil
	case watch.Error:
		return statusError(e.object)
	default:
		return errMalformed
	}
}
