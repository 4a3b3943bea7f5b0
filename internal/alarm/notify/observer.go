package notify

import (
	"context"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Outbox is the part of [outbox.Store] that the Dispatcher uses. The payload of an
// entry is a message.Message as JSON.
type Outbox interface {
	Snapshot() outbox.Snapshot
	Backlog(receiver string) outbox.Backlog
	Pending(ctx context.Context, receiver string, after int64, limit int) ([]outbox.Entry, error)
	Prepared(ctx context.Context, receiver string) (*outbox.Attempt, error)
	Prepare(ctx context.Context, receiver string, last int64, key string, body []byte) (*outbox.Attempt, error)
	Reference(ctx context.Context, receiver, group string) (string, error)
	Acknowledge(ctx context.Context, a *outbox.Attempt) (outbox.Counts, error)
	DropOlderThan(ctx context.Context, receiver string, t time.Time) (outbox.Counts, error)
	DropReceiver(ctx context.Context, receiver string) (outbox.Counts, error)
}

var _ Outbox = (*outbox.Store)(nil)

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
	// Recovered: an attempt succeeded after Failing.
	Recovered(receiver string)
	// ThreadLost: the messages of a group could not continue their thread and started a
	// new one. text is a sentence for the receiver's owner.
	ThreadLost(receiver, text string)
}

// Delivery describes a message that a receiver accepted.
type Delivery struct {
	Kind Kind
	// Latency is the time until the receiver accepted the message. It starts when the
	// oldest entry of the message was stored, or was due if it belongs to a group.
	Latency time.Duration
}

// Kind is the content of a message, as the label of a metric.
type Kind string

const (
	// KindOccurrence: one occurrence.
	KindOccurrence Kind = "occurrence"
	// KindGroup: the new occurrences of a group.
	KindGroup Kind = "group"
	// KindDigest: several messages that a rate limit held back.
	KindDigest Kind = "digest"
)

func kindOf(a *outbox.Attempt) Kind {
	switch {
	case a.Entries > 1:
		return KindDigest
	case a.Group != "":
		return KindGroup
	default:
		return KindOccurrence
	}
}

// DropCause is the reason why occurrences were dropped, as the label of a metric.
type DropCause string

const (
	// DropRejected: the receiver refused the message itself.
	DropRejected DropCause = "rejected"
	// DropExpired: the message exceeded the maximum age.
	DropExpired DropCause = "expired"
	// DropForgotten: the receiver was deleted.
	DropForgotten DropCause = "receiver_deleted"
	// DropOverflow: the receiver has too many pending messages.
	DropOverflow DropCause = "overflow"
	// DropUnreadable: the stored message could not be read or rendered.
	DropUnreadable DropCause = "unreadable"
)
