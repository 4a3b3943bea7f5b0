package operator

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// lease records when this replica last renewed the lease of the leader. After a pause, for example
// of its machine, a process does not know yet that another replica leads. It tries to renew the
// lease for renewDeadline, and must neither send nor write anything meanwhile.
type lease struct {
	clock clock.PassiveClock
	lasts time.Duration
	// renewed is the time of the request, nil before the first one.
	renewed atomic.Pointer[time.Time]
}

// mayLead reports whether no other replica can lead. It is true for a nil lease. A suspended machine
// stops the monotonic clock, so that both clocks count.
func (l *lease) mayLead() bool {
	if l == nil {
		return true
	}
	at, now := l.renewed.Load(), l.clock.Now()
	return at != nil && now.Sub(*at) < l.lasts && now.Round(0).Sub(at.Round(0)) < l.lasts
}

// config returns the configuration of the client that renews the lease.
func (l *lease) config(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewals{lease: l, next: next} })
	return c
}

// fenced returns a configuration whose clients write nothing after another replica can lead. A
// replica that never led is not limited.
func (l *lease) fenced(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{lease: l, next: next} })
	return c
}

var errNotLeading = errors.New("another replica may lead: this one was paused, or could not renew its lease")

// fence refuses requests that change something, or run a command in a pod.
type fence struct {
	lease *lease
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(req *http.Request) (*http.Response, error) {
	changes := req.Method != http.MethodGet || strings.HasSuffix(req.URL.Path, "/exec")
	if !changes || f.lease.renewed.Load() == nil || f.lease.mayLead() {
		return f.next.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, errNotLeading
}

// renewals records the successful writes of a lease.
type renewals struct {
	lease *lease
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *renewals) RoundTrip(req *http.Request) (*http.Response, error) {
	begun := r.lease.clock.Now()
	resp, err := r.next.RoundTrip(req)
	if err == nil && req.Method != http.MethodGet && resp.StatusCode/100 == 2 {
		r.lease.renewed.Store(&begun)
	}
	return resp, err
}
