package notify

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// Observer is told what became of messages. It is called from many goroutines
// and must not block.
type Observer interface {
	// Delivered: the receiver accepted a message of these occurrences, by
	// ledger.Entry.Alarm. It works, whatever was said of it before.
	Delivered(receiver string, d Delivery, alarms outbox.Counts)
	// Dropped: these occurrences were given up. text is a sentence for the owners
	// of the alarms and of the receiver.
	Dropped(receiver string, alarms outbox.Counts, cause DropCause, text string)
	// Failing: an attempt failed, and the one before did not fail in this way.
	Failing(receiver string, err *SendError)
	// Recovered: an attempt succeeded after Failing.
	Recovered(receiver string)
	// ThreadLost: a group's messages could not be gone on with where they were, and
	// were begun anew. text is a sentence for the receiver's owner.
	ThreadLost(receiver, text string)
}

// Delivery is what is told of a message that a receiver accepted.
type Delivery struct {
	Kind Kind
	// Latency is from when the oldest of what the message tells could first be sent,
	// which is when it was written down or its group's message was due, until the
	// receiver accepted it.
	Latency time.Duration
}

// Kind says, as a metric's label, what a message tells of.
type Kind string

const (
	// KindOccurrence: one occurrence.
	KindOccurrence Kind = "occurrence"
	// KindGroup: what is new in a group.
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

// DropCause says, as a metric's label, why occurrences were given up.
type DropCause string

const (
	// DropRejected: the receiver refused the message itself.
	DropRejected DropCause = "rejected"
	// DropExpired: the message grew older than the maximum age.
	DropExpired DropCause = "expired"
	// DropForgotten: the receiver was deleted.
	DropForgotten DropCause = "receiver_deleted"
	// DropOverflow: too much waits for the receiver already.
	DropOverflow DropCause = "overflow"
	// DropUnreadable: the message in the ledger could not be read, or not rendered.
	DropUnreadable DropCause = "unreadable"
)
