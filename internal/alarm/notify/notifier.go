package notify

import (
	"context"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Notifier speaks to one sink. It holds no state between messages and is safe
// for concurrent use.
type Notifier interface {
	// Format names the form of the bodies that Render makes. A body that was
	// frozen in one format is never sent by a Notifier of another.
	Format() string
	// Render makes the request's body. It is pure.
	Render(m message.Message) ([]byte, error)
	// Send makes one attempt to deliver body under the idempotency key. Nil means
	// that the receiver accepted it; otherwise the error is a *SendError, or it
	// is taken for one that may be retried.
	Send(ctx context.Context, key string, body []byte) error
}

// MaxReference bounds what a Threader has kept for a group, in bytes.
const MaxReference = 1024

// Threader is a Notifier that goes on with what it has sent of a group before: in
// the thread of the group's first message, for example.
type Threader interface {
	Notifier
	// SendInGroup makes one attempt as Send does, with a body whose message has a
	// Group. The reference is what the last accepted message of the group returned,
	// from this Notifier or a former one of this receiver, perhaps of another sink, or
	// that of a group of the same key that was over before it began (it has another
	// Since);
	// it is empty if there is none, which may be so for a message that is not
	// the group's first (the ledger was lost, or another replica took over), and
	// present for one that is being repeated. What it returns with an error is not
	// looked at.
	//
	// It is called instead of Send for a message of a group, never for a digest.
	SendInGroup(ctx context.Context, key string, body []byte, reference string) (Threaded, error)
}

// Threaded is what became of a message of a group that the receiver accepted.
type Threaded struct {
	// Reference is kept in the ledger, not encrypted, until the group ends: at most
	// MaxReference bytes, no secret.
	Reference string
	// Lost says, in a sentence for the receiver's owner, that what was sent of the
	// group before could not be gone on with, why, and what was done instead; it is
	// empty if it could.
	Lost string
}
