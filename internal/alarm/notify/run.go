package notify

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// sweepInterval is the time between two checks for messages that are too old or whose
// receiver no longer exists.
const sweepInterval = time.Minute

// Run delivers messages until ctx ends. It then waits for requests in flight, at most
// for Options.Grace, and stores their results. Call it only once.
func (d *Dispatcher) Run(ctx context.Context) error {
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	d.begin(&lifetime{work: ctx, requests: requests, storage: context.WithoutCancel(ctx), began: d.clock.Now()})
	d.workers.Go(func() { d.repeatUntil(ctx.Done()) })
	d.sweepUntil(ctx.Done())
	d.end()

	grace := d.clock.NewTimer(d.opts.Grace)
	defer grace.Stop()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		d.workers.Wait()
	}()
	select {
	case <-finished:
	case <-grace.C():
		cancelRequests()
		<-finished
	}
	return nil
}

func (d *Dispatcher) begin(l *lifetime) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = l
	for _, q := range d.queues {
		d.startWorker(q)
	}
}

func (d *Dispatcher) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = nil
}

// sweepUntil periodically starts a worker for every receiver with pending messages.
// This includes unusable receivers, because their messages expire too, and receivers with
// occurrences in groups, which can be dropped before they are due.
func (d *Dispatcher) sweepUntil(done <-chan struct{}) {
	for {
		d.sweep()
		timer := d.clock.NewTimer(sweepInterval)
		select {
		case <-timer.C():
		case <-done:
			timer.Stop()
			return
		}
	}
}

func (d *Dispatcher) sweep() {
	keys := d.outbox.Receivers()
	orphans := d.orphans(keys)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range keys {
		q := d.queue(id)
		if !q.known && orphans[id] {
			q.deleted = true
		}
		d.startWorker(q)
	}
	d.limiters.sweep(d.clock.Now())
	d.computing.sweep(d.clock.Now())
}

// orphans returns the receivers that do not exist any more. It may read from the API server, so the caller must not hold d.mu.
func (d *Dispatcher) orphans(keys []string) map[string]bool {
	d.mu.Lock()
	unknown := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		q := d.queues[key]
		return q != nil && q.known
	})
	d.mu.Unlock()
	orphans := map[string]bool{}
	for _, key := range unknown {
		orphans[key] = d.opts.Orphaned(key)
	}
	return orphans
}

// startWorker starts the queue's goroutine, or makes the running one check the queue
// again. The caller holds d.mu.
func (d *Dispatcher) startWorker(q *queue) {
	q.woken = true
	if d.running == nil || q.working {
		return
	}
	q.working = true
	w := &worker{Dispatcher: d, lifetime: d.running, queue: q}
	d.workers.Go(w.run)
}

// stopWorker marks the queue's goroutine as ended, unless the queue was woken in the
// meantime. It reports whether the goroutine must end.
func (d *Dispatcher) stopWorker(q *queue) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.woken && d.running != nil {
		q.woken = false
		return false
	}
	q.working = false
	if !q.known && !q.deleted && !q.failing {
		delete(d.queues, q.key)
	}
	return true
}

func (w *worker) run() {
	for {
		w.drain()
		if w.stopWorker(w.queue) {
			return
		}
	}
}

// drain runs steps until there is nothing to do or Run ends. It then still stores the
// result of the last message.
func (w *worker) drain() {
	for w.work.Err() == nil {
		c := w.config()
		more, err := w.step(c)
		if err != nil {
			if !errors.Is(err, outbox.ErrTooManyPrepared) { // a tenant could fill the log with it
				w.log.Error(err, "Reading or writing the outbox failed, retrying", "receiver", w.queue.key)
			}
			w.pause(w.backoff.next(w.opts.MinBackoff, w.opts.MaxBackoff), nil)
		} else if !more {
			return
		}
	}
	if err := w.finish(); err != nil {
		w.log.Error(err, "The result of a message could not be stored, the message will be sent again", "receiver", w.queue.key)
	}
}

// step handles the oldest message. It reports whether there may be more to do. Errors
// are those of the outbox.
func (w *worker) step(c config) (more bool, err error) {
	if err := w.finish(); err != nil {
		return true, err
	}
	if c.deleted {
		return false, w.dropAll()
	}
	if err := w.loadLanes(); err != nil {
		return true, err
	}
	if done, err := w.dropByUser(c); !done || err != nil {
		return true, err
	}
	if !w.sendTest(c) {
		return true, nil
	}
	if w.lane, err = w.nextLane(c); err != nil {
		return false, err
	}
	if w.lane == nil {
		w.freeSpace()
		return false, nil
	}
	heldBack, ok := w.awaitLimits(c)
	if !ok {
		return true, nil
	}
	pause, err := w.attempt(c, heldBack)
	if err == nil && pause > 0 {
		w.pause(pause, c.current.Done())
	}
	return true, err
}

// awaitLease is the pause while another process may be the leader. This one ends soon, or leads on.
const awaitLease = time.Second

// attempt sends the next message as soon as the receiver's namespace may make another
// request. It returns how long to pause if the receiver did not accept the message. A body
// is read only after the wait, so that the memory of those that wait is small.
func (w *worker) attempt(c config, heldBack bool) (time.Duration, error) {
	place := w.inFlight.enter(c.receiver.Namespace)
	defer w.inFlight.leave(place)
	select {
	case <-place.granted:
	case <-c.current.Done():
		return 0, nil
	case <-w.work.Done():
		return 0, nil
	}
	if !w.opts.MayLead() {
		return awaitLease, nil
	}
	w.lane.former, w.lane.tried = w.lane.tried, w.clock.Now() // also if no space is left for a prepared message: others can free it
	done, ok := w.mayRender(c)
	if !ok {
		return 0, nil
	}
	r, err := w.next(c, heldBack)
	done()
	if err = w.noteSpace(err); err != nil || r == nil {
		return 0, err
	}
	w.permission = nil
	return w.send(c, r)
}
