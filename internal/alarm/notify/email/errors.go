package email

import (
	"errors"
	"fmt"
	"net/textproto"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// Steps of a session, as a sentence about the server ends.
const (
	greeting  = "the connection"
	login     = "the user name or password; correct the Secret"
	sender    = "spec.email.from; correct it, or let the user send for it"
	addressee = "spec.email.to[%d]; correct it"
	content   = "this message, which is dropped"
)

var (
	errNoStartTLS = errors.New("no STARTTLS")
	errNoAuth     = errors.New("no AUTH that is known")
)

// stepError says at which step a session failed.
type stepError struct {
	step string
	err  error
}

func at(step string, err error) error { return &stepError{step, err} }

// Error is for programmers: what a server says is not passed on.
func (e *stepError) Error() string { return "SMTP: " + e.step }

// Unwrap returns what went wrong.
func (e *stepError) Unwrap() error { return e.err }

// wordError says what to do about a failed session. A reply of 4xx may be better the
// next time, one of 5xx will not (RFC 5321, 4.2.1).
func wordError(err error) *notify.SendError {
	step, isStep := errors.AsType[*stepError](err)
	reply, isReply := errors.AsType[*textproto.Error](err)
	switch {
	case errors.Is(err, errNoStartTLS):
		return parked("the mail server does not offer STARTTLS; set spec.email.tls to what it offers")
	case errors.Is(err, errNoAuth):
		return parked("the mail server offers no login with a password; set spec.email.tls, or remove spec.email.credentialsSecretRef")
	case !isStep || !isReply:
		return httppost.ConnectionError(err)
	}
	const permanent = 500
	failure := &notify.SendError{
		Class:  notify.Park,
		Reason: v1alpha1.ReasonDeliveryFailing,
		Text:   fmt.Sprintf("the mail server answered %d: it refuses %s", reply.Code, step.step),
	}
	switch {
	case reply.Code < permanent:
		failure.Class = notify.Retry
		failure.Text = fmt.Sprintf("the mail server answered %d: it cannot take the message now; it is tried again", reply.Code)
	case step.step == content:
		failure.Class = notify.Reject
	}
	return failure
}

func parked(text string) *notify.SendError {
	return &notify.SendError{Class: notify.Park, Reason: v1alpha1.ReasonDeliveryFailing, Text: text}
}
