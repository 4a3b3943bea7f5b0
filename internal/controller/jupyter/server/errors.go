package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
)

var (
	errNoToken = errors.New("the token is empty")
	errToken   = errors.New("the token cannot be sent: it contains control characters, a line break perhaps")
	errClock   = errors.New("the clock of the notebook's node differs from the operator's by more than a minute; set the nodes' clocks")
	errFuture  = errors.New("the server says that it was last used in the future; set the nodes' clocks")
)

// askError is for a question that was not answered as it should be.
type askError struct {
	path string
	what string
	// status of the answer, if there was one.
	status int
}

// Error tells path and cause.
func (e *askError) Error() string { return "GET " + e.path + ": " + e.what }

// statusError is for an answer other than 200.
func statusError(path string, code int) error {
	text := fmt.Sprintf("the server answered %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		text += ": it does not accept the token of spec.auth.tokenSecretRef; was that changed after the notebook started?"
	case code == http.StatusNotFound:
		text += ": is this a Jupyter server, without a base_url of its own?"
	case code/100 == 3:
		text += ": redirects are not followed"
	}
	return &askError{path: path, what: text, status: code}
}

// connectionError says what net/http means without its words, which hold addresses.
func connectionError(path string, err error) error {
	what := "the connection broke off"
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), isNet && timeout.Timeout():
		what = "the server did not answer in time"
	case errors.Is(err, context.Canceled):
		what = "the probe was ended"
	case errors.Is(err, syscall.ECONNREFUSED):
		what = "the server refused the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		what = "the pod cannot be reached"
	}
	return &askError{path: path, what: what}
}
