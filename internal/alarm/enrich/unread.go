package enrich

import (
	"errors"
	"net/http"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bongsu-io/bongsu/internal/alarm"
)

// The reasons of a failed read. They appear in statuses, so they contain nothing of the
// error: it can name the host of the API server.
const (
	rateLimited  alarm.Unread = "the API server limits requests"
	noAnswer     alarm.Unread = "the API server does not answer"
	forbidden    alarm.Unread = "the API server denies the operator permission to read it: check the roles of the operator"
	unauthorized alarm.Unread = "the API server does not accept the credentials of the operator"
	failed       alarm.Unread = "the API server cannot read it"
)

// errNoObject reports that there is no object to read: no object can have the reference,
// or another object has its name now.
var errNoObject = errors.New("no such object")

// unreadError is the error of a read that was not made, because an earlier one failed.
type unreadError alarm.Unread

// Error implements error.
func (e unreadError) Error() string { return string(e) }

// Classify returns why the error of a read does not answer whether the object exists. It is
// empty for no error, and if there is no such object. Then the API server does not find it,
// or can never serve the request. A denied permission is no answer: an API server that
// starts denies all requests until it has loaded the roles.
func Classify(err error) alarm.Unread {
	if err == nil || errors.Is(err, errNoObject) {
		return ""
	}
	if unread, ok := errors.AsType[unreadError](err); ok {
		return alarm.Unread(unread)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return noAnswer
	}
	switch status.Status().Code {
	case http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity:
		return ""
	case http.StatusTooManyRequests:
		return rateLimited
	case http.StatusForbidden:
		return forbidden
	case http.StatusUnauthorized:
		return unauthorized
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return noAnswer
	default:
		return failed
	}
}

// isGone reports whether the object of a reference existed and never returns, by the error of
// a read from the API server. The component that wrote the Event had seen the object, and the
// read is never older than the Event. The API server gives each object a new UUID. An object
// with another UID can appear after the Event. A kubelet uses the name of its Node, or the
// hash of a static pod whose mirror pod does not exist yet.
func isGone(ref alarm.Reference, err error) bool {
	id, invalid := uuid.Parse(ref.UID)
	return (errors.Is(err, errNoObject) || apierrors.IsNotFound(err)) && invalid == nil && id.String() == ref.UID
}
