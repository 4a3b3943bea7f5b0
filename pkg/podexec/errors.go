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

// Errors of Run. With any other error, or with ErrForbidden or ErrNoContainer, the
// command was not run.
var (
	// ErrForbidden: the operator may not run commands in the pod.
	ErrForbidden = errors.New("running commands in the pod is forbidden")
	// ErrNoContainer: there is no such pod, it has no such container, or it is on no
	// node.
	ErrNoContainer = errors.New("there is no such container")
	// ErrDeadline: the command was ended by its deadline; or it has ended by itself, but
	// later.
	ErrDeadline = errors.New("the command did not end in time")
	// ErrLost: the command does not run any more, and how it ended is not known.
	ErrLost = errors.New("how the command ended is not known")
	// ErrLeaked: the command may still run: nobody could end it, or Run was not given
	// the time to see its end.
	ErrLeaked = errors.New("the command did not end in time and may still run")
)

// byStatus is the error for what the API server, or who is before it, answered.
func byStatus(code int) error {
	switch code {
	case http.StatusForbidden:
		return ErrForbidden
	// 400 is a container that the pod has not, or a pod that has no node.
	case http.StatusNotFound, http.StatusBadRequest:
		return ErrNoContainer
	}
	return nil
}

// statusOf returns the HTTP status with which an upgrade was refused, 0 if that is not
// known.
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

// neverSent says of an error of a request whether it was refused, or did not reach
// anybody who might have done what it asks for.
func neverSent(err error) bool {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	return isRefusal(err) || errors.As(err, &certificate) || errors.As(err, &network) && network.Op == "dial"
}

// isRefusal says whether SPDY may get through where WebSocket did not.
func isRefusal(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// maxText bounds what is quoted of an error, in bytes.
const maxText = 512

// discreet is an error of somebody else's that does not quote the command.
type discreet struct {
	text  string
	cause error
}

func (d *discreet) Error() string { return d.text }

// Unwrap returns the error as it was. It must not be printed.
func (d *discreet) Unwrap() error { return d.cause }

// hush takes the command out of an error's text: URLs have it in their queries, and
// nodes repeat it. Its first word stays, which tells a user what was not found.
func hush(err error, command []string) error {
	shown := err
	if request, ok := errors.AsType[*url.Error](err); ok {
		shown = request.Err
	}
	text := shown.Error()
	for _, form := range formsOf(command[1:]) {
		text = strings.ReplaceAll(text, form, "...")
	}
	return &discreet{text: plaintext.Cut(plaintext.Line(text), maxText), cause: err}
}

// formsOf returns what arguments look like where they are repeated, the longest first,
// as one may be a part of another.
func formsOf(args []string) []string {
	var forms []string
	for _, arg := range args {
		if len(arg) < 3 { // no secret, and too likely to be a part of some word
			continue
		}
		quoted := strconv.Quote(arg)
		forms = append(forms, arg, url.QueryEscape(arg), quoted[1:len(quoted)-1])
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return forms
}
