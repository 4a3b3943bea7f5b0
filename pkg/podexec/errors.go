package podexec

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Errors of Run. The command has run if the error is ErrDeadline, ErrLost or ErrLeaked.
// With any other error it has not.
var (
	// ErrForbidden: the client may not run commands in the pod.
	ErrForbidden = errors.New("running commands in the pod is forbidden")
	// ErrNoContainer: the pod or the container does not exist, or the pod has no node.
	ErrNoContainer = errors.New("container not found")
	// ErrUnreached: the API server or the node did not answer, or could not be reached.
	ErrUnreached = errors.New("the pod could not be reached")
	// ErrDeadline: the watchdog ended the command, or it ended by itself after the limit.
	ErrDeadline = errors.New("the command did not end in time")
	// ErrLost: the command has ended, and its exit code is unknown.
	ErrLost = errors.New("the result of the command is unknown")
	// ErrLeaked: the command may still run.
	ErrLeaked = errors.New("the command did not end in time and may still run")
)

// errorForStatus returns the error for an HTTP status, or nil.
func errorForStatus(code int) error {
	switch code {
	case http.StatusForbidden:
		return ErrForbidden
	// 400 means that the pod has no such container or no node.
	case http.StatusNotFound, http.StatusBadRequest:
		return ErrNoContainer
	}
	return nil
}

// unreachedError is an error that is ErrUnreached, with the text of its cause.
type unreachedError struct{ error }

func (e unreachedError) Is(target error) bool { return target == ErrUnreached }

func (e unreachedError) Unwrap() error { return e.error }

// isUnreached reports whether a request with an HTTP status, or 0, can succeed later.
func isUnreached(code int) bool {
	return code == 0 || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// statusOf returns the HTTP status of a refused upgrade, or 0 if unknown.
func statusOf(resp *http.Response, err error) int {
	var refused *httpstream.UpgradeFailureError
	var status apierrors.APIStatus
	switch {
	case resp != nil:
		return resp.StatusCode
	case errors.As(err, &refused) && errors.As(refused.Cause, &status):
		return int(status.Status().Code)
	}
	return 0
}

// notSent reports whether a request was refused, or did not reach a server that could run
// the command.
func notSent(err error) bool {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	return isUpgradeRefused(err) || errors.As(err, &certificate) || errors.As(err, &network) && network.Op == "dial"
}

// isUpgradeRefused reports whether SPDY may work where WebSocket did not.
func isUpgradeRefused(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// maxErrorText limits the text of an error, in bytes.
const maxErrorText = 512

// redactedError is an error whose text does not contain the arguments of the command.
type redactedError struct {
	text  string
	cause error
}

func (d *redactedError) Error() string { return d.text }

// Unwrap returns the original error. Do not print it.
func (d *redactedError) Unwrap() error { return d.cause }

// redact removes the arguments of the command from an error. URLs and nodes repeat them,
// and they can contain secrets. The program name stays.
func redact(err error, command []string) error {
	shown := err
	if request, ok := errors.AsType[*url.Error](err); ok {
		shown = request.Err
	}
	text := shown.Error()
	for _, form := range spellingsOf(command[1:]) {
		text = strings.ReplaceAll(text, form, "...")
	}
	return &redactedError{text: plaintext.Cut(plaintext.Line(text), maxErrorText), cause: err}
}

// spellingsOf returns the forms that arguments can have in errors, longest first, because
// one can be a part of another.
func spellingsOf(args []string) []string {
	var forms []string
	for _, arg := range args {
		if len(arg) < 3 { // too short for a secret, and often a part of other words
			continue
		}
		quoted := strconv.Quote(arg)
		forms = append(forms, arg, url.QueryEscape(arg), quoted[1:len(quoted)-1])
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return forms
}
