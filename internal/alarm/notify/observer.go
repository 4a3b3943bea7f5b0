package notify

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Store is the part of [outbox.Store] that the Dispatcher uses.
type Store interface {
	Outbox
	Lanes
	Threads
	Repeats
}

// Outbox contains the messages of receivers. The payload of an entry is a message.Part as JSON.
type Outbox interface {
	Receivers() []string
	Backlog(receiver string) outbox.Backlog
	OldestIn(ctx context.Context, receiver string, lane int64) (created time.Time, found bool, err error)
	Pending(ctx context.Context, q outbox.Query) ([]outbox.Entry, error)
	Entries(ctx context.Context, ids []int64) ([]outbox.Entry, error)
	Prepared(ctx context.Context, receiver string, lane int64) (*outbox.Attempt, error)
	Prepare(ctx context.Context, receiver string, lane int64, entries []int64, key string, body []byte) (*outbox.Attempt, error)
	NoteFailure(ctx context.Context, a *outbox.Attempt, f outbox.Failure) error
	Discard(ctx context.Context, a *outbox.Attempt, drop ...int64) (outbox.Counts, error)
	Finish(ctx context.Context, a *outbox.Attempt, o outbox.Outcome) (outbox.Counts, error)
	DropOlderThan(ctx context.Context, receiver string, lane int64, t time.Time) (outbox.Counts, error)
	DropReceiver(ctx context.Context, receiver string) (outbox.Counts, error)
}

// Lanes divides the messages of a receiver.
type Lanes interface {
	NextTenant(ctx context.Context, receiver, after string) (tenant string, found bool, err error)
	SideLanes(ctx context.Context, receiver string) ([]int64, error)
	SetAside(ctx context.Context, a *outbox.Attempt) (bool, error)
	Rejoin(ctx context.Context, receiver string, lane int64) (bool, error)
}

// Threads contains the references of groups: see [Threader].
type Threads interface {
	Reference(ctx context.Context, receiver, group string) (string, error)
	Threads(ctx context.Context, receiver, group string) (int64, error)
}

// Repeats contains the last messages of open groups: see [Repeater].
type Repeats interface {
	CaughtUp(t time.Time) bool
	Repeated(ctx context.Context, receiver string, sent time.Time, limit, size int) ([]outbox.Repeated, error)
	SetRepeated(ctx context.Context, receiver string, all []outbox.Repeated, sent time.Time) error
}

var _ Store = (*outbox.Store)(nil)

// Observer receives the results of deliveries. Many goroutines call it. It must not
// block.
type Observer interface {
	// Delivered: the receiver accepted a message with these occurrences, counted by
	// outbox.Entry.Alarm. The receiver works, even if Failing was called before.
	Delivered(receiver string, d Delivery, alarms outbox.Counts)
	// Dropped: these occurrences will not be delivered. text is a sentence for the
	// owners of the alarms and of the receiver.
	Dropped(receiver string, alarms outbox.Counts, cause DropCause, text string)
	// Failing: an attempt failed, and the previous one did not fail in the same way.
	Failing(receiver string, err *SendError)
	// Changed: Dispatcher.Failure, NextAttempt, SetAside, Dropped or LastTest returns another value, and
	// Failing or Recovered was not called for it.
	Changed(receiver string)
	// BatchRefused: the receiver refused so many messages in a batch, or combined into one. They
	// are sent alone. This is no failure of the receiver.
	BatchRefused(receiver string, messages int64, err *SendError)
	// Recovered: an attempt succeeded after Failing.
	Recovered(receiver string)
	// ThreadLost: the messages of a group could not continue their thread and started a
	// new one. text is a sentence for the receiver's owner.
	ThreadLost(receiver, text string)
}

// Delivery describes a message or a batch that a receiver accepted.
type Delivery struct {
	Kind Kind
	// Messages is 1, or the number of messages of a batch.
	Messages int64
	// Latency is the time until the receiver accepted the message. It starts when the
	// oldest entry of the message was stored, or was due if it belongs to a group.
	Latency time.Duration
}

// Kind is the content of a message, as the label of a metric.
type Kind string

const (
	// KindOccurrence: one occurrence, or several of an incident.
	KindOccurrence Kind = "occurrence"
	// KindGroup: the new occurrences of a group.
	KindGroup Kind = "group"
	// KindDigest: several messages that a rate limit held back.
	KindDigest Kind = "digest"
	// KindBatch: one of several messages that one request delivered.
	KindBatch Kind = "batch"
)

// DropCause is the reason why occurrences were dropped, as the label of a metric.
type DropCause string

const (
	// DropRejected: the receiver refused the message itself.
	DropRejected DropCause = "rejected"
	// DropExpired: the message exceeded the maximum age.
	DropExpired DropCause = "expired"
	// DropForgotten: the receiver was deleted.
	DropForgotten DropCause = "receiver_deleted"
	// DropOverflow: the messages that wait use up the space of their budget or receiver.
	DropOverflow DropCause = "overflow"
	// DropByUser: a user dropped the message, which was set aside.
	DropByUser DropCause = "user"
	// DropSetAside: too many messages are set aside, because the receiver accepts others only.
	DropSetAside DropCause = "set_aside"
	// DropUnreadable: the stored message could not be read or rendered.
	DropUnreadable DropCause = "unreadable"
)

// byKey is an Observer that gets the keys of receivers instead of their IDs.
type byKey struct{ Observer }

func (o byKey) Delivered(id string, d Delivery, alarms outbox.Counts) {
	o.Observer.Delivered(alarm.ReceiverKey(id), d, alarms)
}

func (o byKey) Dropped(id string, alarms outbox.Counts, cause DropCause, text string) {
	o.Observer.Dropped(alarm.ReceiverKey(id), alarms, cause, text)
}

func (o byKey) Failing(id string, err *SendError) {
	o.Observer.Failing(alarm.ReceiverKey(id), err)
}

func (o byKey) Changed(id string) { o.Observer.Changed(alarm.ReceiverKey(id)) }

func (o byKey) BatchRefused(id string, messages int64, err *SendError) {
	o.Observer.BatchRefused(alarm.ReceiverKey(id), messages, err)
}

func (o byKey) Recovered(id string) { o.Observer.Recovered(alarm.ReceiverKey(id)) }

func (o byKey) ThreadLost(id, text string) {
	o.Observer.ThreadLost(alarm.ReceiverKey(id), text)
}
