package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
)

// RepeatReads returns a wrapper that repeats failed requests to get or list objects until starting ends.
// A process that starts can then wait for an API server that restarts. Watches, writes and answers
// such as 403 are not repeated. The last failure is returned.
func RepeatReads(starting context.Context, clk clock.Clock) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return repeater{next, clk, starting.Done()} }
}

type repeater struct {
	next    http.RoundTripper
	clock   clock.Clock
	started <-chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (r repeater) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet || request.URL.Query().Get("watch") != "" {
		return r.next.RoundTrip(request)
	}
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Cap: 5 * time.Second, Steps: 10}
	for {
		response, err := r.next.RoundTrip(request)
		if !mayPass(response, err) || !r.pause(request.Context(), backoff.Step()) {
			return response, err
		}
		if response != nil {
			_, _ = io.CopyN(io.Discard, response.Body, maxFailure)
			_ = response.Body.Close()
		}
	}
}

// maxFailure is how much of a failed response is read, so that its connection can be used again.
const maxFailure = 16 << 10

// mayPass reports whether a repeated request may succeed.
func mayPass(response *http.Response, err error) bool {
	if err != nil {
		return !errors.Is(err, context.Canceled)
	}
	return response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError
}

// pause reports whether it lasted for all of d, and the request can be repeated.
func (r repeater) pause(ctx context.Context, d time.Duration) bool {
	timer := r.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	case <-r.started:
		return false
	}
}
