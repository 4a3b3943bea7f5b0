package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Notifier sends to one receiver. It holds no state between messages and is safe for
// concurrent use.
type Notifier interface {
	// Format names the format of the bodies that Render returns. A body is only sent
	// by a Notifier of the format in which it was rendered.
	Format() string
	// Render returns the request's body. The same message always has the same body.
	Render(m message.Message) ([]byte, error)
	// Send makes one attempt to deliver body with the idempotency key, in limited time. It
	// returns nil if the receiver accepted it, ErrInterrupted if Early ended before the
	// receiver could accept it, and a *SendError otherwise. Any other error counts as one
	// that may be retried.
	Send(ctx context.Context, key string, body []byte) error
}

// ErrInterrupted means that the receiver did not get the message, because the operator stops
// or the receiver changed. It is not a failure.
var ErrInterrupted = errors.New("interrupted before the receiver could accept the message")

type earlyKey struct{}

// WithEarly returns the context of an attempt whose Early is early.
func WithEarly(ctx, early context.Context) context.Context {
	return context.WithValue(ctx, earlyKey{}, early)
}

// Early returns a context that ends when the operator begins to stop, or when the receiver
// changes. The context of Send ends some seconds later, or not at all. A Notifier whose
// attempts can take minutes gives up when Early ends. If the receiver may have accepted the
// message, it goes on, because a retry would repeat the message.
func Early(ctx context.Context) context.Context {
	if early, ok := ctx.Value(earlyKey{}).(context.Context); ok {
		return early
	}
	return ctx
}

// MaxReference is the maximum length of Threaded.Reference, in bytes.
const MaxReference = 1024

// Threader is a Notifier that connects the messages of a group, for example in the
// thread of the group's first message.
type Threader interface {
	Notifier
	// SendInGroup replaces Send for the message of a group, but not for a digest. It
	// makes one attempt, with a body whose message has a Group.
	//
	// The reference is the one that the last accepted message with this group's key
	// returned. It may be from an earlier configuration, even of another receiver type.
	// It may also be from an earlier group with the same key but another Since.
	//
	// The reference is empty if there is none. A later message of a group may have none
	// if the outbox was lost or another replica took over. A retry of a group's first
	// message may have one.
	//
	// The caller ignores the result if the error is not nil.
	SendInGroup(ctx context.Context, key string, body []byte, reference string) (Threaded, error)
}

// Threaded is the result of sending a message of a group.
type Threaded struct {
	// Reference is stored in the outbox until the group ends, without encryption. It
	// has at most MaxReference bytes and must not contain a secret.
	Reference string
	// Lost is empty if the message continued the thread. Otherwise it is a sentence for
	// the receiver's owner: why the thread was lost, and what was done instead.
	Lost string
}

// Class says how to handle a failed attempt.
type Class int

const (
	// Retry: the same attempt may succeed later (429, 5xx, time-outs, connection
	// errors).
	Retry Class = iota
	// Reject: this message will never be accepted (400, 413, 422); others may be.
	Reject
	// Stop: no message will be accepted until someone corrects the receiver, its Secret
	// or the service (401, 403, 404, 410, a redirect, a forbidden address). The operator
	// retries after a change, and after 30 seconds to 5 minutes.
	Stop
)

// String returns the value of the class in metrics.
func (c Class) String() string {
	switch c {
	case Reject:
		return "reject"
	case Stop:
		return "stop"
	default:
		return "retry"
	}
}

// SendError is a failed attempt. Its texts are for the receiver's owner. They never contain a
// secret.
type SendError struct {
	Class Class
	// Reason is the reason of the receiver's Ready condition, a v1alpha1.Reason constant.
	Reason string
	// Text says what is wrong and, if you can fix it, what to do. It can contain Retried.
	Text string
	// Answer is an Excerpt of the receiver's answer, or empty. It is untrusted.
	Answer string
	// RetryAfter is how long the receiver asked the operator to wait, or 0.
	RetryAfter time.Duration
}

// Retried is the part of a text which says that the operator retries the message.
const Retried = ": the operator retries it"

// OfTest returns the failure of a test message, which is not retried.
func (e *SendError) OfTest() *SendError {
	failure := *e
	failure.Text = strings.Replace(e.Text, Retried, ": try again later", 1)
	return &failure
}

// Error returns the text.
func (e *SendError) Error() string { return e.Text }

// Explain returns the text. If the message is refused, it also has the answer, which says what to
// correct.
func (e *SendError) Explain() string {
	if e.Class != Reject || e.Answer == "" {
		return e.Text
	}
	return fmt.Sprintf("%s. The answer: '%s'", e.Text, e.Answer)
}

// same reports whether e and other mean the same to the owner.
func (e *SendError) same(other *SendError) bool {
	return e.Class == other.Class && e.Reason == other.Reason && e.Text == other.Text
}

// asSendError returns err if it is a *SendError. Any other error counts as one that may
// be retried. Its text is hidden, because it may contain a secret.
func asSendError(err error) *SendError {
	if e, ok := errors.AsType[*SendError](err); ok {
		return e
	}
	return &SendError{Class: Retry, Reason: v1alpha1.ReasonDeliveryFailing, Text: "the message could not be sent" + Retried}
}
