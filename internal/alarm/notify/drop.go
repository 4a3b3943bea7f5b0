package notify

import (
	"fmt"
	"slices"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// afterStart is how long nothing is dropped after a start. No operator may have run for days, or
// the clock may be wrong until it is synchronized.
const afterStart = 10 * time.Minute

// expire drops messages of a lane that exceed the maximum age, even if the receiver is
// unusable. It reports whether any message is left.
func (w *worker) expire(lane int64) (waiting bool, err error) {
	before := alarm.Now(w.clock, w.began).Add(-w.opts.MaxAge)
	oldest, waiting, err := w.outbox.OldestIn(w.storage, w.queue.key, lane)
	if err != nil || !waiting || !oldest.Before(before) || w.clock.Since(w.began) < min(afterStart, w.opts.MaxAge) {
		return waiting, err
	}
	if err := w.expirePrepared(lane, before); err != nil {
		return false, err
	}
	counts, err := w.outbox.DropOlderThan(w.storage, w.queue.key, lane, before)
	if err != nil {
		return false, err
	}
	w.dropped(counts, DropExpired, w.expiredText())
	_, waiting, err = w.outbox.OldestIn(w.storage, w.queue.key, lane)
	return waiting, err
}

// expirePrepared drops the prepared message of a lane if it is too old. If it has several entries,
// these are pending again instead, because the newer ones are not too old.
func (w *worker) expirePrepared(lane int64, before time.Time) error {
	prepared, err := w.outbox.Prepared(w.storage, w.queue.key, lane)
	switch {
	case prepared == nil || err != nil || !prepared.Oldest.Before(before):
		return err
	case len(prepared.Entries) > 1:
		_, err := w.outbox.Discard(w.storage, prepared)
		return err
	}
	w.result = &result{request: &request{Attempt: prepared}, cause: DropExpired, text: w.expiredText()}
	return w.finish()
}

func (w *worker) expiredText() string {
	return fmt.Sprintf("not delivered within %s: check the receiver's Ready condition", w.opts.MaxAge.Round(time.Second))
}

const forgottenText = "the receiver, or its namespace, was deleted"

// dropAll drops the messages of a deleted receiver.
func (w *worker) dropAll() error {
	counts, err := w.outbox.DropReceiver(w.storage, w.queue.key)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.queue.deleted, w.queue.lanes = false, nil
	w.mu.Unlock()
	w.dropped(counts, DropForgotten, forgottenText)
	return nil
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

// dropOne drops the message with a key of a prepared batch. The other messages are then
// pending again. found is false if the message is in no batch.
func (w *worker) dropOne(r *request, key string) (found bool, err error) {
	i := slices.IndexFunc(r.Messages, func(m BatchMessage) bool { return m.Key == key })
	if i < 0 || r.Kind != KindBatch {
		return false, nil
	}
	counts, err := w.outbox.Discard(w.storage, r.Attempt, r.Entries[i])
	w.dropped(counts, DropByUser, droppedByUserText)
	return true, err
}
