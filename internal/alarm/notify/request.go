package notify

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/outbox"
)

// request is a prepared message, or a prepared batch of them.
type request struct {
	*outbox.Attempt
	content
}

// content is stored in the outbox as the body of an attempt.
type content struct {
	Kind Kind `json:"kind"`
	// Format is the format of the Notifier that rendered the messages.
	Format string `json:"format"`
	// Messages are in the order of the entries if the Kind is KindBatch. Else it is one.
	Messages []BatchMessage `json:"messages"`
	// Groups contains the last state of each group that has a message.
	Groups []outbox.GroupState `json:"groups,omitempty"`
}

// BatchMessage is a message as the receiver gets it.
type BatchMessage struct {
	// Key is the idempotency key of the message.
	Key string `json:"key"`
	// Body is what Notifier.Render returned.
	Body []byte `json:"body"`
}

// combines reports whether the receiver gets one message for several entries that are not a digest.
func (r *request) combines() bool {
	return len(r.Entries) > 1 && r.Kind != KindDigest && r.Kind != KindBatch
}

// result is the final result of a message: delivered or dropped.
type result struct {
	request *request
	// at is when the receiver accepted a delivered message.
	at time.Time
	// cause is empty if the message was delivered.
	cause DropCause
	text  string
	// lost is Threaded.Lost.
	lost string
}

func (r *result) delivery() Delivery {
	d := Delivery{Kind: r.request.Kind, Messages: 1, Latency: max(r.at.Sub(r.request.Oldest), 0)}
	if d.Kind == KindBatch {
		d.Messages = int64(len(r.request.Messages))
	}
	return d
}

// outcome returns what the outbox stores of the result.
func (r *result) outcome() outbox.Outcome {
	o := outbox.Outcome{GivenUp: r.cause != "", KeepEntries: r.request.Kind == KindDigest}
	if !o.GivenUp {
		o.Groups = r.request.Groups
	}
	return o
}
