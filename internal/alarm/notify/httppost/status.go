package httppost

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// Answer is what is made of a server's answer, at first by its status alone.
type Answer struct {
	Status int
	// Body is its beginning, and untrusted: no part of it may be told.
	Body []byte
	// Taken says that the message was accepted.
	Taken bool
	// Class says what to do about one that was not, Advice the same in words.
	Class  notify.Class
	Advice string
	// RetryAfter is how long the server asked to be left alone.
	RetryAfter time.Duration
}

func newAnswer(resp *http.Response) *Answer {
	class, advice := classify(resp.StatusCode)
	return &Answer{
		Status:     resp.StatusCode,
		Taken:      resp.StatusCode/100 == 2,
		Class:      class,
		Advice:     advice,
		RetryAfter: retryAfter(resp.Header),
	}
}

// Refuse says that the message was not taken, whatever the status is.
func (a *Answer) Refuse(class notify.Class, advice string) {
	a.Taken, a.Class, a.Advice = false, class, advice
}

func (a *Answer) sendError() *notify.SendError {
	text := "the receiver refused the message: "
	if a.Status/100 != 2 {
		text = fmt.Sprintf("the receiver answered %s: ", statusLine(a.Status))
	}
	return &notify.SendError{
		Class:      a.Class,
		Reason:     v1alpha1.ReasonDeliveryFailing,
		Text:       text + a.Advice,
		RetryAfter: a.RetryAfter,
	}
}

// statusLine is ours, not the server's, whose text may be anything.
func statusLine(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d %s", code, text)
	}
	return strconv.Itoa(code)
}

// classify says what to do about a status, and advises. What is not known to
// pass, nor to be the fault of the message, waits for a change: nothing is lost
// by that.
func classify(code int) (notify.Class, string) {
	switch code {
	case http.StatusTooManyRequests:
		return notify.Retry, "it asks for fewer messages; they are sent later"
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusConflict:
		// 409: a request with this Idempotency-Key is still being processed
		// (draft-ietf-httpapi-idempotency-key-header).
		return notify.Retry, "it is tried again"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return notify.Reject, "it refuses this message, which is dropped"
	case http.StatusUnauthorized, http.StatusForbidden:
		return notify.Park, "it refuses the credentials; correct the Secret"
	case http.StatusNotFound, http.StatusGone:
		return notify.Park, "there is nothing at the URL; correct it"
	}
	switch code / 100 {
	case 3:
		return notify.Park, "redirects are not followed; set the URL that it redirects to"
	case 5:
		return notify.Retry, "it has a fault of its own; it is tried again"
	}
	return notify.Park, "it does not take messages in this way; check the URL"
}

// retryAfter reads the header of RFC 9110, 10.2.3: seconds or a date. A date is
// taken relative to the answer's own Date, so that no clock of ours matters.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
