package notify

import (
	"cmp"
	"context"
	"maps"
	"time"

	"golang.org/x/time/rate"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
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

// Test is a test message that a user asked for.
type Test struct {
	// Value identifies the test. It is empty if the user asks for none.
	Value   string
	Message message.Message
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

// lastAttempt is the result of an attempt.
type lastAttempt struct {
	made    bool
	failure *SendError
}

// TestResult is the result of a test message.
type TestResult struct {
	// Value is Test.Value. It is empty if no test was sent.
	Value string
	// At is the time of the result.
	At time.Time
	// Failure is nil if the receiver accepted the message.
	Failure *SendError
}

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
	// receiver. The entries in singles are sent alone.
	batch   int
	singles map[int64]bool
	// tenant had the last turn.
	tenant string
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

// reserve asks all limits for one message. It returns how long the message must wait.
func reserve(limits []*rate.Limiter, now time.Time) (reservations []*rate.Reservation, delay time.Duration) {
	for _, limit := range limits {
		r := limit.ReserveN(now, 1)
		reservations = append(reservations, r)
		delay = max(delay, r.DelayFrom(now))
	}
	return reservations, delay
}

func cancelAll(reservations []*rate.Reservation, now time.Time) {
	for _, r := range reservations {
		r.CancelAt(now)
	}
}
