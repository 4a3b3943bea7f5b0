package notify

import (
	"errors"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Class says what can be done about a failed attempt.
type Class int

const (
	// Retry: the same attempt may succeed later (429, 5xx, time-outs, connection
	// errors).
	Retry Class = iota
	// Reject: this message will never be accepted (400, 413, 422); others may be.
	Reject
	// Park: nothing will be accepted until the receiver or its Secret changes
	// (401, 403, 404, 410, a redirect, an address that is not allowed).
	Park
)

// String names the class as metrics do.
func (c Class) String() string {
	switch c {
	case Reject:
		return "reject"
	case Park:
		return "park"
	default:
		return "retry"
	}
}

// SendError is a failed attempt. Its text is a sentence for the receiver's owner
// and never holds a URL, an address, a header or what the receiver answered.
type SendError struct {
	Class Class
	// Reason of the receiver's Ready condition, a v1alpha1.Reason constant.
	Reason string
	// Text says what happened and, where something can be done, what to do.
	Text string
	// RetryAfter is how long the receiver asked to be left alone; 0 if it did not.
	RetryAfter time.Duration
}

// Error is the sentence.
func (e *SendError) Error() string { return e.Text }

// same reports whether e and other tell the owner the same.
func (e *SendError) same(other *SendError) bool {
	return e.Class == other.Class && e.Reason == other.Reason && e.Text == other.Text
}

// asSendError takes what is no *SendError for a failure that may be retried. Its
// text is not passed on, for it may hold anything.
func asSendError(err error) *SendError {
	if e, ok := errors.AsType[*SendError](err); ok {
		return e
	}
	return &SendError{Class: Retry, Reason: v1alpha1.ReasonDeliveryFailing, Text: "the message could not be sent"}
}
