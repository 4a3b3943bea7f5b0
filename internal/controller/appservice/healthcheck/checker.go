package healthcheck

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/controller/appservice/health"
	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// DialFunc connects. net.Dialer's DialContext is one.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Execer runs commands in containers. podexec.Runner is one.
type Execer interface {
	Run(ctx context.Context, target podexec.Target, command []string, limit time.Duration) (podexec.Result, error)
}

// Checker makes checks. It is safe for concurrent use, and keeps no connection to any
// pod.
type Checker struct {
	clock clock.PassiveClock
	exec  Execer
	dial  DialFunc
	// api and apiURL are the way to the API server.
	api    http.RoundTripper
	apiURL *url.URL
}

// New returns a Checker with the rights of a configuration. dial is how pods are
// reached; nil is the network's way.
func New(clk clock.PassiveClock, config *rest.Config, exec Execer, dial DialFunc) (*Checker, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	api, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	apiURL, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &Checker{clock: clk, exec: exec, dial: dial, api: api, apiURL: apiURL}, nil
}

// Run makes a check, which takes no longer than its Limit.
func (c *Checker) Run(ctx context.Context, check Check) health.Observation {
	at := c.clock.Now() // of what comes after, the check may not tell
	ctx, cancel := context.WithTimeout(ctx, check.Limit())
	defer cancel()
	var r result
	switch {
	case check.Exec != nil:
		r = c.runCommand(ctx, check)
	case check.HTTP == nil:
		r = unreachable("the check is empty")
	default:
		r = c.ask(ctx, check)
	}
	return health.Observation{At: at, Outcome: r.outcome, Message: line(r.message)}
}

// Overdue is what is to be said of a run that has not returned although its context
// ended.
func (c *Checker) Overdue(check Check) health.Observation {
	r := unreachable("the check does not end")
	if check.Exec != nil {
		r = leaked()
	}
	return health.Observation{At: c.clock.Now(), Outcome: r.outcome, Message: r.message}
}

// result is an observation without its time.
type result struct {
	outcome health.Outcome
	message string
}

func passed() result                    { return result{outcome: health.Passed} }
func failed(message string) result      { return result{health.Failed, message} }
func unreachable(message string) result { return result{health.Unreachable, message} }
