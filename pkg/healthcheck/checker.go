// Package healthcheck makes a health check of a pod. It sends an HTTP request to the pod,
// directly or through the API server's proxy, or runs a command in it:
//
//	runner, err := podexec.New(restConfig)
//	if err != nil {
//		return err
//	}
//	checker, err := healthcheck.New(clock.RealClock{}, restConfig, runner, nil)
//	if err != nil {
//		return err
//	}
//	o := checker.Run(ctx, healthcheck.Check{
//		Namespace: "shop", Pod: "web-0", PodUID: pod.UID, Timeout: time.Second,
//		HTTP: &healthcheck.HTTP{IP: pod.Status.PodIP, Port: 8080, Path: "/healthz"},
//	})
//	fmt.Println(o.Outcome, o.Message)
//
// Package probe runs checks periodically, and decides what is healthy.
//
// # Security
//
// A tenant controls every part of a check: path, headers, command, and the answer of the
// pod. Therefore a check connects only to the pod's address. It resolves no names, follows
// no redirects and uses no proxies. It reads a limited amount. A message is one line of at
// most 512 bytes with the answer of the pod. It contains no headers, arguments or
// addresses.
//
// # HTTP
//
// An HTTP check means the same as for the kubelet. 200 to 399 is healthy, the certificate
// is not verified, and the Host header is used. There are two differences. No redirect is
// followed, not even to the same pod. Headers that belong to a connection are refused.
//
// A direct check fails if the pod refuses the connection, or if it does not answer
// correctly. If there is no connection, the check could not be made: a network policy may
// block it.
//
// Through the API server, its own answers must be distinguished from the app's. They are
// objects of kind Status with the code of the answer. An app that answers with a Status
// can therefore pretend that it cannot be reached. Some cases look alike: a pod that
// refuses connections, and a pod that does not begin to answer in time. They count as
// checks that could not be made.
//
// The headers of such a check reach the API server together with the operator's
// credentials. Headers with a meaning there are refused, and so is Host: a load balancer
// could send the credentials to another server. The API server decodes and cleans the
// path.
package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// DialFunc connects to the TCP address of a pod on a node.
type DialFunc func(ctx context.Context, node, address string) (net.Conn, error)

// Execer runs commands in containers, like podexec.Runner.
type Execer interface {
	Run(ctx context.Context, target podexec.Target, command []string, limit time.Duration) (podexec.Result, error)
}

// Checker makes checks. It is safe for concurrent use. It keeps no connection to a pod.
type Checker struct {
	clock clock.PassiveClock
	exec  Execer
	dial  DialFunc
	// api and apiURL reach the API server.
	api    http.RoundTripper
	apiURL *url.URL
}

// New returns a Checker with the permissions of a configuration. dial connects to pods.
// The default is a direct connection.
func New(clk clock.PassiveClock, config *rest.Config, exec Execer, dial DialFunc) (*Checker, error) {
	if dial == nil {
		dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
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

// Run makes a check. It takes no longer than its Limit.
func (c *Checker) Run(ctx context.Context, check Check) Observation {
	at := c.clock.Now() // the check knows nothing of later times
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
	return Observation{At: at, Outcome: r.outcome, Message: line(r.message)}
}

// Overdue is the observation for a run that has not returned although its context has
// ended.
func (c *Checker) Overdue(check Check) Observation {
	r := unreachable("the check does not end")
	if check.Exec != nil {
		r = leaked()
	}
	return Observation{At: c.clock.Now(), Outcome: r.outcome, Message: r.message}
}

// result is an observation without its time.
type result struct {
	outcome Outcome
	message string
}

func passed() result                    { return result{outcome: Passed} }
func failed(message string) result      { return result{Failed, message} }
func unreachable(message string) result { return result{Unreachable, message} }

// Check is one check of one pod.
type Check struct {
	Namespace, Pod string
	PodUID         types.UID
	// Timeout limits the request or the command. For a command, it is rounded up to whole
	// seconds.
	Timeout time.Duration
	// HTTP or Exec is the request or the command. Set one of them.
	HTTP *HTTP
	Exec *Exec
}

// HTTP is a request to a pod.
type HTTP struct {
	// IP is the pod's address, and Node its node. They are not used through the API server.
	IP, Node  string
	Port      int32
	Scheme    corev1.URIScheme // the default is HTTP
	Path      string           // with a query, if there is one
	Headers   []corev1.HTTPHeader
	Transport Transport
}

// Transport is the path of a request to a pod.
type Transport string

// Values of Transport. The default is PodIP.
const (
	// PodIP: the request goes to the address of the pod.
	PodIP Transport = "PodIP"
	// APIServer: the request goes through the proxy of the API server. The client needs get
	// on pods/proxy.
	APIServer Transport = "APIServer"
)

// Exec is a command in a container.
type Exec struct {
	Container string
	Command   []string
}

// Limit is the longest time that the check may take. A command needs more than its
// timeout, to start and to report its end.
func (c Check) Limit() time.Duration {
	if c.Exec != nil {
		return c.Timeout + podexec.Margin
	}
	return c.Timeout
}

// runCommand runs the command of a check. Its output does not matter.
func (c *Checker) runCommand(ctx context.Context, check Check) result {
	target := podexec.Target{Namespace: check.Namespace, Pod: check.Pod, Container: check.Exec.Container, UID: check.PodUID}
	ran, err := c.exec.Run(ctx, target, check.Exec.Command, check.Timeout)
	switch {
	case err != nil:
		return notEnded(err, check.Timeout)
	case ran.ExitCode == 0:
		return passed()
	}
	message := fmt.Sprintf("exit code %d", ran.ExitCode)
	if first := firstLine(ran.Output); first != "" {
		message += ": " + first
	}
	return failed(message)
}

// notEnded is the result of a command whose exit code is not known. Errors of podexec do
// not contain its arguments.
func notEnded(err error, timeout time.Duration) result {
	switch {
	case errors.Is(err, podexec.ErrLeaked):
		return leaked()
	case errors.Is(err, podexec.ErrDeadline):
		return failed(fmt.Sprintf("the command did not end within %d s", seconds(timeout)))
	case errors.Is(err, podexec.ErrForbidden):
		return result{Forbidden, "the operator may not create pods/exec here"}
	case errors.Is(err, context.DeadlineExceeded):
		return unreachable("the command could not be run in time")
	default:
		return unreachable("the command could not be run: " + err.Error())
	}
}

func leaked() result {
	return result{Leaked, "the command did not end in time and could not be ended; no other is run until it has"}
}

// firstLine is the first line of the output that is not empty.
func firstLine(output string) string {
	for l := range strings.Lines(output) {
		if l = line(l); l != "" {
			return l
		}
	}
	return ""
}

func seconds(d time.Duration) int { return int(d / time.Second) }
