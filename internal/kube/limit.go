package kube

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/transport"
)

// ErrTooLarge is the error of a request whose response exceeds the limit of [LimitResponses].
var ErrTooLarge = errors.New("the response of the API server is too large")

// NoLimit is a limit of [LimitResponses] that only the context of a request lowers.
const NoLimit = math.MaxInt64 - 1

// LimitResponses returns a wrapper that ends responses after a number of bytes with
// ErrTooLarge. Tenants decide how large their objects are, and a list contains many. See also
// [WithResponseLimit].
func LimitResponses(limit int64) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return limiter{next, limit} }
}

// responseLimit is the key of a limit in a context.
type responseLimit struct{}

// WithResponseLimit lowers the limit of [LimitResponses] for the requests of the context.
func WithResponseLimit(ctx context.Context, limit int64) context.Context {
	return context.WithValue(ctx, responseLimit{}, limit)
}

type limiter struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (l limiter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	limit := l.limit
	if lower, ok := request.Context().Value(responseLimit{}).(int64); ok {
		limit = min(limit, lower)
	}
	response.Body = &limitedBody{ReadCloser: response.Body, left: limit}
	return response, nil
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one byte more than allowed shows that there is more
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// LimitRetryAfter returns a wrapper that shortens the pauses that responses ask for. The client of
// Kubernetes repeats such requests itself, and waits as long as a response says. It can come from a
// proxy, and most requests have no time limit.
func LimitRetryAfter(limit time.Duration) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return retryLimiter{next, int(limit / time.Second)} }
}

type retryLimiter struct {
	next    http.RoundTripper
	seconds int
}

// RoundTrip implements http.RoundTripper.
func (l retryLimiter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > l.seconds {
		response.Header.Set("Retry-After", strconv.Itoa(l.seconds))
	}
	return response, nil
}

// ErrNoAnswer is the error of a request that [LimitWait] ends.
var ErrNoAnswer = errors.New("the API server does not answer")

// LimitWait returns a wrapper that ends a request if no answer begins in time. The API server answers
// every request within about a minute, and a watch at once. A proxy in between can hold a request for
// ever, and answer pings meanwhile.
func LimitWait(limit time.Duration) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return waitLimiter{next, limit} }
}

type waitLimiter struct {
	next  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l waitLimiter) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	waiting, stop := context.WithTimeoutCause(ctx, l.limit, ErrNoAnswer)
	answered := context.AfterFunc(waiting, func() { cancel(context.Cause(waiting)) })
	response, err := l.next.RoundTrip(request.WithContext(ctx))
	answered()
	stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrNoAnswer) {
			err = ErrNoAnswer
		}
		cancel(nil)
		return response, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols { // its body is a connection, which the caller needs
		response.Body = endingBody{response.Body, cancel}
	}
	return response, nil
}

// endingBody ends the context of its request when it is closed.
type endingBody struct {
	io.ReadCloser
	end context.CancelCauseFunc
}

// Close implements io.Closer.
func (b endingBody) Close() error {
	defer b.end(nil)
	return b.ReadCloser.Close()
}
