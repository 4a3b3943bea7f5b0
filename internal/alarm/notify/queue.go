package notify

import (
	"cmp"
	"context"
	"maps"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Receiver is the configuration of one receiver.
type Receiver struct {
	// Key is "AlarmReceiver/NAMESPACE/NAME" or "ClusterAlarmReceiver//NAME".
	Key string
	// UID identifies the object. A receiver of the same name with another UID gets nothing
	// that waits for this one.
	UID string
	// Fingerprint is a digest of everything the receiver was built from, including
	// Secrets. Configure ignores a receiver with an unchanged fingerprint, so that
	// reconciles for other reasons do not end its pause. An empty one always differs.
	Fingerprint string
	// Notifier sends to the receiver.
	Notifier Notifier
	// Namespace contains the AlarmReceiver. Receivers of a namespace share the number of
	// requests in flight. It is empty for a ClusterAlarmReceiver, which has no such limit.
	Namespace string
	// Limits are the receiver's rate limits. Each message waits for all of them.
	Limits []Limit
	// Drop is "all", or the key of a message: the user drops the messages that are set aside,
	// or this one. It is empty if the user drops none. Dropped is the last
	// value that an earlier process handled.
	Drop, Dropped string
	// Test is a test message to send. Tested is the last Test.Value that an earlier process
	// handled.
	Test   Test
	Tested string
	// ResolvesAlone means that a message that resolves a group is never part of a digest.
	// It is for receivers to which it is more than a text, for example PagerDuty.
	ResolvesAlone bool
	// Destination returns where the receiver shows a message, for example its channel. Messages
	// with different destinations are never combined. It is nil if all have the same one.
	Destination func(*message.Message) string
}

// Limit is a rate limit. Messages that it holds back are sent as one digest.
type Limit struct {
	// Key identifies the limit. Receivers with the same key share it. It must not
	// reveal the value of a Secret.
	Key string
	// Every is the mean time between two messages; 0 means unlimited.
	Every time.Duration
	// Burst is the number of messages that need not wait after a quiet time. Default: 1.
	Burst int
}

// queue is the state of one receiver. The Dispatcher's mutex guards it.
type queue struct {
	// key is the alarm.ReceiverID.
	key string
	// receiver is nil while the receiver is unknown, disabled or deleted.
	receiver *Receiver
	limits   []*rate.Limiter
	// known is true from the first Configure or Disable until Forget. Messages for a receiver
	// that was never known are kept until [Options.Orphaned].
	known bool
	// deleted means that the pending messages must be dropped.
	deleted bool
	// failure is the error of the last attempt with the current configuration.
	failure *SendError
	// next is the time of the next attempt; zero if it is less than shownPause away.
	next time.Time
	// attempt is the last attempt with the current configuration.
	attempt lastAttempt
	// test is the last test message of this process. tested is the last value of Receiver.Test
	// that was handled, also by an earlier process.
	test   TestResult
	tested string
	// noSpace means that a message cannot be prepared for lack of space.
	noSpace bool
	// failing is true from Observer.Failing until Observer.Recovered.
	failing bool
	// lanes are those with messages, by ID, nil before they are read. Only the goroutine of
	// the queue uses them.
	lanes map[int64]*lane
	// accepted is when the receiver last accepted a message. It is zero after a change of the
	// receiver. Only the goroutine of the queue uses it.
	accepted time.Time
	// aside is the number of messages that are set aside. dropped is the last value of
	// Receiver.Drop that was handled.
	aside   int
	dropped string
	// changed means that the receiver changed, which ends the pauses of all lanes.
	changed bool
	// repeats is what the receiver gets again.
	repeats repeats
	// current ends when the configuration changes, which ends pauses early. supersede
	// ends it.
	current   context.Context
	supersede context.CancelFunc

	// working means that a goroutine serves the queue, woken that it must check the
	// queue once more.
	working, woken bool
}

func (q *queue) usable() bool { return q.receiver != nil }

// queue returns the queue of key and creates it if needed. The caller holds d.mu.
func (d *Dispatcher) queue(key string) *queue {
	q, ok := d.queues[key]
	if !ok {
		q = &queue{key: key}
		q.current, q.supersede = context.WithCancel(context.Background())
		d.queues[key] = q
	}
	return q
}

// Configure adds or replaces a receiver. It ends the receiver's pause, and the next attempt
// uses the new configuration.
func (d *Dispatcher) Configure(r Receiver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.present(alarm.ReceiverID(r.Key, r.UID))
	if q.receiver != nil && r.Fingerprint != "" && q.receiver.Fingerprint == r.Fingerprint {
		return
	}
	q.known, q.deleted = true, false
	d.replace(q, &r)
}

// Disable records that the receiver with this ID exists but is unusable, for example because
// its Secret is missing. Pending messages wait. A key means the receiver that exists now.
func (d *Dispatcher) Disable(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.present(d.receiverOf(id))
	q.known = true
	d.replace(q, nil)
}

// present returns the queue of the receiver that exists now. It forgets a former one of the
// same name. The caller holds d.mu.
func (d *Dispatcher) present(id string) *queue {
	key := alarm.ReceiverKey(id)
	former, ok := d.current[key]
	if ok && former == key && id != key {
		d.queue(former).known = false // it was disabled before its UID was known
	} else if former != id {
		d.forget(former)
	}
	d.current[key] = id
	return d.queue(id)
}

// Forget records that the receiver with this key does not exist. The Dispatcher drops its pending
// messages, unless it is configured again first.
func (d *Dispatcher) Forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(d.current[key])
	delete(d.current, key)
}

// forget drops the messages of a receiver. The caller holds d.mu.
func (d *Dispatcher) forget(id string) {
	q, ok := d.queues[id]
	if !ok || !q.known {
		return
	}
	q.known, q.deleted = false, true
	q.failing = false
	d.replace(q, nil)
}

// receiverOf returns the ID of the receiver that exists now, if id is a key. The caller holds d.mu.
func (d *Dispatcher) receiverOf(id string) string {
	if present, ok := d.current[id]; ok {
		return present
	}
	return id
}

// Wake announces new messages for receivers with these IDs.
func (d *Dispatcher) Wake(keys ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		if q, ok := d.queues[key]; ok && q.usable() {
			d.startWorker(q)
		}
	}
}

// Failure returns the error of the receiver's last attempt with its current
// configuration. If the attempt succeeded or there was none, it returns why messages cannot
// be prepared or sent again, or nil.
func (d *Dispatcher) Failure(key string) *SendError {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.queues[d.receiverOf(key)]
	switch {
	case !ok:
		return nil
	case q.failure == nil && q.noSpace:
		return errNoSpace
	case q.failure == nil:
		return q.repeats.failure
	default:
		return q.failure
	}
}

// NextAttempt returns when the Dispatcher tries again to send to a receiver that fails. It
// returns the zero time if the pause is shorter than 30 seconds, or if the receiver does not
// fail. The attempt can come earlier, after a change of the receiver, and it can come later
// because of rate limits.
func (d *Dispatcher) NextAttempt(key string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, ok := d.queues[d.receiverOf(key)]; ok {
		return q.next
	}
	return time.Time{}
}

// replace replaces the queue's receiver with r, which may be nil. The caller holds d.mu.
func (d *Dispatcher) replace(q *queue, r *Receiver) {
	former := q.receiver
	q.receiver, q.limits = r, d.limiters.acquire(r)
	d.limiters.release(former)
	q.failure, q.next, q.changed = nil, time.Time{}, true
	q.attempt = lastAttempt{}
	q.repeats.forget()
	switch {
	case r == nil:
	case r.Drop == "":
		q.dropped = ""
	case q.dropped == "":
		q.dropped = r.Dropped
	}
	if r != nil && q.tested == "" {
		q.tested = r.Tested
	}
	q.supersede()
	q.current, q.supersede = context.WithCancel(context.Background())
	d.startWorker(q)
}

// limiters holds the limiters in use. Receivers with equal limits share one.
type limiters map[Limit]*limiter

type limiter struct {
	*rate.Limiter
	users int
}

// acquire returns the limiters of r, which may be nil.
func (l limiters) acquire(r *Receiver) []*rate.Limiter {
	var all []*rate.Limiter
	for _, limit := range limitsOf(r) {
		shared, ok := l[limit]
		if !ok {
			shared = &limiter{Limiter: rate.NewLimiter(rate.Every(limit.Every), limit.Burst)}
			l[limit] = shared
		}
		shared.users++
		all = append(all, shared.Limiter)
	}
	return all
}

// release keeps the limiters until sweep, so that a receiver that is created again does not
// get a new burst.
func (l limiters) release(r *Receiver) {
	for _, limit := range limitsOf(r) {
		l[limit].users--
	}
}

// sweep deletes the limiters without users that would permit a full burst.
func (l limiters) sweep(now time.Time) {
	maps.DeleteFunc(l, func(limit Limit, shared *limiter) bool {
		return shared.users == 0 && shared.TokensAt(now) >= float64(limit.Burst)
	})
}

// limitsOf returns the limits of r. A limit without a key is not shared with other
// receivers.
func limitsOf(r *Receiver) []Limit {
	if r == nil {
		return nil
	}
	var limits []Limit
	for _, limit := range r.Limits {
		limit.Key, limit.Burst = cmp.Or(limit.Key, r.Key), cmp.Or(limit.Burst, 1)
		if limit.Every > 0 {
			limits = append(limits, limit)
		}
	}
	return limits
}
