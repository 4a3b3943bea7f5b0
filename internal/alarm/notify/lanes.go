package notify

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// divisor divides a digest that fails for long. It multiplies the size of the next digest after
// a success.
const divisor = 8

// maxSetAside is the number of messages of a receiver that stay set aside, although it accepts
// others. Beyond it, one that fails again is dropped. More can be set aside during an outage.
const maxSetAside = 100

// lane is a part of a queue. Messages of different lanes do not wait for each other.
type lane struct {
	// id is the lane's number in the outbox.
	id int64
	// tried is the time of the last attempt, former that of the one before, and next the
	// earliest time of the next one.
	tried, former, next time.Time
	// failures counts the failed attempts of the attempt with this ID.
	failures int
	attempt  int64
	backoff  backoff
	// alone means that the message failed although the receiver had accepted another one since
	// the attempt before.
	alone bool
	// limit is the number of entries that the next digest can have; 0 is no limit.
	limit int
	// batch is the number of messages that the next batch can have; 0 is the limit of the
	// receiver. Entries with an ID up to single are sent alone.
	batch  int
	single int64
	// noSpace means that the next message could not be prepared: see worker.noteSpace.
	noSpace bool
}

// maxDigest returns how many entries a message of the lane can have. An attempt of a lane other
// than the main lane has only one: outbox.Prepare binds no others.
func (l *lane) maxDigest() int {
	if l.id != outbox.MainLane {
		return 1
	}
	return cmp.Or(l.limit, outbox.MaxEntries)
}

// failed counts a failed attempt.
func (l *lane) failed(r *request) {
	if l.attempt != r.ID {
		l.attempt, l.failures, l.alone = r.ID, 0, false
	}
	l.failures++
}

// postpone ends an attempt of a message that is set aside.
func (l *lane) postpone(now time.Time) { l.next = now.Add(l.backoff.next(minAside, maxAside)) }

// loadLanes reads the lanes of the queue once.
func (w *worker) loadLanes() error {
	if w.queue.lanes != nil {
		return nil
	}
	side, err := w.outbox.SideLanes(w.storage, w.queue.key)
	if err != nil {
		return err
	}
	w.queue.lanes = map[int64]*lane{outbox.MainLane: {id: outbox.MainLane}}
	for _, id := range side {
		w.queue.lanes[id] = &lane{id: id, failures: 1}
	}
	w.countAside()
	return nil
}

// nextLane returns the lane whose turn it is. However many messages are set aside, every second
// attempt is one of the main lane. Between these, the lane has its turn that was tried the
// longest time ago. It returns nil if no message waits. It drops messages that are too old.
func (w *worker) nextLane(c config) (*lane, error) {
	now := w.clock.Now()
	for _, l := range slices.SortedFunc(maps.Values(w.queue.lanes), w.compareLanes) {
		if c.usable && l.next.After(now) {
			continue
		}
		waiting, err := w.expire(l.id)
		if err != nil {
			return nil, err
		}
		if waiting && c.usable {
			return l, nil
		}
		if !waiting && l.id != outbox.MainLane {
			delete(w.queue.lanes, l.id)
			w.countAside()
		}
	}
	return nil, nil
}

func (w *worker) compareLanes(a, b *lane) int {
	rank := func(l *lane) int {
		switch {
		case l == w.lane:
			return 2
		case l.id == outbox.MainLane:
			return 0
		default:
			return 1
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.tried.Compare(b.tried), cmp.Compare(a.id, b.id))
}

// accepts reports whether the receiver accepted the last message of the main lane.
func (w *worker) accepts() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.failure == nil
}

// laneSucceeded continues the other lanes after the receiver accepted a message.
func (w *worker) laneSucceeded(r *request) {
	if r.Lane == outbox.MainLane && w.lane.limit > 0 {
		if w.lane.limit *= divisor; w.lane.limit >= outbox.MaxEntries {
			w.lane.limit = 0
		}
	}
	if r.Kind == KindBatch {
		w.batchSucceeded()
	}
	w.lane.failures, w.queue.accepted = 0, w.clock.Now()
	if w.moved == 0 {
		return
	}
	w.moved = 0
	w.endPauses() // they failed while the receiver accepted nothing
}

// endPauses ends the pauses of all lanes.
func (w *worker) endPauses() {
	for _, l := range w.queue.lanes {
		l.next, l.backoff = time.Time{}, backoff{}
	}
}

// forgetFailures begins again after the receiver changed: what it did not accept before, it
// may accept now.
func (w *worker) forgetFailures() {
	w.endPauses()
	w.queue.accepted = time.Time{}
	for _, l := range w.queue.lanes {
		l.alone, l.batch, l.single = false, 0, 0
	}
}

const tooManySetAsideText = "too many messages are set aside, because the receiver accepts others only: correct the receiver"

// failedAside handles a failure of a message that is set aside. It drops the message the second
// time that it fails alone, if too many others did so once. During an outage, the receiver
// accepts none, so that none fails alone.
func (w *worker) failedAside(r *request) {
	w.lane.failed(r)
	w.lane.postpone(w.clock.Now())
	alone := w.queue.accepted.After(w.lane.former)
	if alone && w.lane.alone && w.countAlone() > maxSetAside {
		w.result = &result{request: r, cause: DropSetAside, text: tooManySetAsideText}
	}
	w.lane.alone = w.lane.alone || alone
	w.countAside()
}

// laneFailed moves a message out of the way of others if it failed for long. A digest is
// divided instead, because only some of its messages can be the cause. So is a batch, soon.
func (w *worker) laneFailed(r *request) error {
	w.lane.failed(r)
	if r.Kind == KindBatch && w.lane.failures >= batchAttempts {
		return w.divide(r)
	}
	stuck := min(minStuck<<min(w.moved, 10), maxStuck)
	if w.lane.failures < stuckAttempts || w.clock.Since(r.FirstTried) < stuck {
		return nil
	}
	if r.Kind == KindDigest {
		w.lane.limit = max(1, len(r.Entries)/divisor)
		_, err := w.outbox.Discard(w.storage, r.Attempt)
		return err
	}
	moved, err := w.outbox.SetAside(w.storage, r.Attempt)
	if errors.Is(err, outbox.ErrTooManySetAside) {
		return nil
	}
	if err != nil {
		w.queue.lanes = nil // it can have moved a part
		return err
	}
	if !moved {
		return nil
	}
	w.moved++
	w.queue.lanes[r.Lane] = &lane{id: r.Lane, tried: w.lane.tried, attempt: r.ID, failures: w.lane.failures}
	w.lane.failures = 0
	w.countAside()
	return nil
}

// rejoin moves what waits in a lane back to the main lane, after its message was sent or
// dropped.
func (w *worker) rejoin(id int64) error {
	if id == outbox.MainLane || w.queue.lanes == nil {
		return nil
	}
	moved, err := w.outbox.Rejoin(w.storage, w.queue.key, id)
	if moved {
		delete(w.queue.lanes, id)
	} else if l := w.queue.lanes[id]; l != nil {
		l.failures, l.next, l.backoff, l.alone = 0, time.Time{}, backoff{}, false
	}
	w.countAside()
	return err
}

// countAlone returns the number of messages that failed alone.
func (w *worker) countAlone() (n int) {
	for _, l := range w.queue.lanes {
		if l.alone {
			n++
		}
	}
	return n
}

// countAside updates the number of messages that are set aside.
func (w *worker) countAside() {
	n := 0
	for id, l := range w.queue.lanes {
		if id != outbox.MainLane && l.failures > 0 {
			n++
		}
	}
	w.mu.Lock()
	changed := w.queue.aside != n
	w.queue.aside = n
	w.mu.Unlock()
	if changed {
		w.observer.Changed(w.queue.key)
	}
}

const droppedByUserText = "a user dropped the message"

// dropByUser drops the messages that the receiver's annotation names. done is false if it
// must be called again.
func (w *worker) dropByUser(c config) (done bool, err error) {
	if !c.usable || c.receiver.Drop == "" || c.receiver.Drop == c.dropped {
		return true, nil
	}
	for id := range w.queue.lanes {
		if id == outbox.MainLane && c.receiver.Drop == "all" {
			continue
		}
		if found, err := w.dropPrepared(id, c.receiver.Drop); found || err != nil {
			return false, err
		}
	}
	w.mu.Lock()
	w.queue.dropped = c.receiver.Drop
	w.mu.Unlock()
	w.observer.Changed(w.queue.key)
	return true, nil
}

// dropPrepared drops the prepared message of a lane, or one message of a batch, if a user drops
// it. found is false otherwise.
func (w *worker) dropPrepared(lane int64, drop string) (found bool, err error) {
	r, err := w.readPrepared(lane)
	if r == nil || err != nil {
		return false, err
	}
	if drop != "all" && r.Key != drop {
		return w.dropOne(r, drop)
	}
	w.result = &result{request: r, cause: DropByUser, text: droppedByUserText}
	return true, w.finish()
}

// SetAside returns the number of messages that are set aside, because a receiver that accepts
// others does not accept them. It is 0 while the receiver accepts nothing.
func (d *Dispatcher) SetAside(key string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok && q.failure == nil {
		return q.aside
	}
	return 0
}

// SetAsideByAll returns the sum of SetAside of all receivers.
func (d *Dispatcher) SetAsideByAll() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		if q.failure == nil {
			n += q.aside
		}
	}
	return n
}

// FailingReceivers returns the number of receivers whose last attempt failed and is retried.
func (d *Dispatcher) FailingReceivers() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		if q.failure != nil && q.failure.Class != Reject {
			n++
		}
	}
	return n
}

// Dropped returns the last value of Receiver.Drop that was handled.
func (d *Dispatcher) Dropped(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok {
		return q.dropped
	}
	return ""
}
