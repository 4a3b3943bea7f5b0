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
		l.alone, l.batch, l.singles = false, 0, nil
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

// divide makes the messages of a batch or an incident that failed pending again: only some of
// them can be the cause. Those of a batch are sent alone. If its size is the cause, the next
// batches are smaller. After a refusal about an incident, its oldest message is sent alone.
func (w *worker) divide(r *request) error {
	alone := r.Entries[:1]
	if r.Kind == KindBatch {
		alone, w.lane.batch = r.Entries, max(minBatch, len(r.Entries)/2)
	}
	w.lane.singles = map[int64]bool{}
	for _, id := range alone {
		w.lane.singles[id] = true
	}
	_, err := w.outbox.Discard(w.storage, r.Attempt)
	return err
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

// noteSpace records whether the message of the lane could not be prepared for lack of space,
// and returns the error. The log does not show it, because a tenant could fill the log.
func (w *worker) noteSpace(err error) error {
	w.lane.noSpace = errors.Is(err, outbox.ErrTooManyPrepared)
	w.showSpace()
	return err
}

// freeSpace records that no message waits for space, because none waits.
func (w *worker) freeSpace() {
	for _, l := range w.queue.lanes {
		l.noSpace = false
	}
	w.showSpace()
}

// showSpace updates what Dispatcher.Failure returns.
func (w *worker) showSpace() {
	noSpace := false
	for _, l := range w.queue.lanes {
		noSpace = noSpace || l.noSpace
	}
	w.mu.Lock()
	changed := w.queue.noSpace != noSpace
	w.queue.noSpace = noSpace
	w.mu.Unlock()
	if changed {
		w.observer.Changed(w.queue.key)
	}
}
