// Package server asks a Jupyter server whether it is used, by its REST API: /api/status,
// /api/kernels and /api/terminals.
//
// Everything uncertain is an error: an answer that is not one of this API, a redirect, a
// clock that differs. The server belongs to its user and may answer anything, so no text
// of an answer is passed on. The token goes only to the given address. No error contains
// it, and neither proxies nor redirects are followed.
//
// Package culling decides what is idle.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/utils/clock"
)

// maxHeaderBytes limits the header of an answer.
const maxHeaderBytes = 64 << 10

// DialFunc connects to the TCP address of a pod on a node.
type DialFunc func(ctx context.Context, node, address string) (net.Conn, error)

// Target is a server to ask.
type Target struct {
	// Address is the IP address and port of the server, such as 10.1.2.3:8888.
	Address string
	// Node is the node of the server's pod.
	Node string
	// Prefix precedes all paths, such as /lab/ana. Default: no prefix.
	Prefix string
	// ActivityPath is the path at which an HTTP server reports its last use. Default: it is a
	// Jupyter server.
	ActivityPath string
	// Token for a Jupyter server.
	Token string
}

// String returns the address. Printing a Target must not show its token.
func (t Target) String() string { return t.Address }

// GoString is String.
func (t Target) GoString() string { return t.Address }

// MarshalLog is String, for logr.
func (t Target) MarshalLog() any { return t.Address }

// Activity is the use that a server reports.
type Activity struct {
	// Server is when the server was last used, by its own count. It counts requests, and
	// kernels and terminals that no longer exist. No time is later than the clock of the
	// Client.
	Server time.Time
	// Kernels is when a kernel was last used, and Terminals when a terminal was. They are
	// zero if none exists.
	Kernels, Terminals time.Time
	// Busy: a kernel executes something, or is starting.
	Busy bool
	// Detail describes what exists, such as "2 kernels, 1 busy; 1 terminal".
	Detail string
}

// Client sends the requests. It is safe for concurrent use and keeps no connection.
type Client struct {
	clock clock.PassiveClock
	dial  DialFunc
}

// New returns a Client. dial connects to servers. The default is a direct connection.
func New(clk clock.PassiveClock, dial DialFunc) *Client {
	if dial == nil {
		dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return &Client{clock: clk, dial: dial}
}

// Ask asks a server. The context limits the time. An error contains neither address nor
// token. The same cause has the same text.
func (c *Client) Ask(ctx context.Context, target Target) (Activity, error) {
	if target.ActivityPath == "" {
		return c.askJupyter(ctx, target)
	}
	s, end := c.session(target)
	defer end()
	var status activityAnswer
	if err := s.get(ctx, target.ActivityPath, &status); err != nil {
		return Activity{}, err
	}
	now := c.clock.Now()
	a, err := summarize(status.statusAnswer, nil, nil, now)
	if err != nil {
		return Activity{}, err
	}
	if a.Server = a.Server.Add(status.precision); a.Server.After(now) {
		a.Server = now
	}
	a.Detail = "the last use that the server reports"
	return a, nil
}

func (c *Client) askJupyter(ctx context.Context, target Target) (Activity, error) {
	if err := checkToken(target.Token); err != nil {
		return Activity{}, err
	}
	s, end := c.session(target)
	defer end()

	var status statusAnswer
	if err := s.get(ctx, "/api/status", &status); err != nil {
		return Activity{}, err
	}
	var kernels kernelsAnswer
	if err := s.get(ctx, "/api/kernels", &kernels); err != nil {
		return Activity{}, err
	}
	terminals, err := s.terminals(ctx)
	if err != nil {
		return Activity{}, err
	}
	return summarize(status, kernels, terminals, c.clock.Now())
}

// checkToken refuses a token that cannot be sent, before net/http quotes it.
func checkToken(token string) error {
	if token == "" {
		return errNoToken
	}
	if !httpguts.ValidHeaderFieldValue("token " + token) {
		return errToken
	}
	return nil
}

// session uses one connection, which it closes. Among thousands of servers with one probe
// a minute, a kept connection is not worth its cost.
func (c *Client) session(target Target) (s *session, end func()) {
	transport := &http.Transport{
		Proxy: nil, // the token is for the server alone
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.dial(ctx, target.Node, address)
		},
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // the limit applies to the bytes that are sent
	}
	s = &session{
		target: target,
		clock:  c.clock,
		http: &http.Client{
			Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
	return s, transport.CloseIdleConnections
}

// maxBody limits an answer. A kernel takes 200 bytes.
const maxBody = 1 << 20

// untracked prevents that the server counts the request itself as use. Without it, a
// server whose kernels are listed is never idle.
const untracked = "?no_track_activity=1"

// session is a connection to one server.
type session struct {
	target Target
	clock  clock.PassiveClock
	http   *http.Client
}

// answer is an answer of the API that validates itself.
type answer interface {
	json.Unmarshaler
}

// get sends a request and reads the answer.
func (s *session) get(ctx context.Context, path string, into answer) error {
	query := untracked
	if s.target.ActivityPath != "" {
		query = ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.target.Address+s.target.Prefix+path+query, http.NoBody)
	if err != nil {
		return &askError{path: path, what: "the pod's address cannot be used"}
	}
	if s.target.ActivityPath == "" { // the token is for Jupyter servers only
		req.Header.Set("Authorization", "token "+s.target.Token)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "bongsu")
	resp, err := s.http.Do(req)
	if err != nil {
		return connectionError(path, err)
	}
	defer resp.Body.Close()
	return s.read(path, resp, into)
}

func (s *session) read(path string, resp *http.Response, into answer) error {
	if err := s.check(path, resp); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return connectionError(path, err)
	}
	if len(body) > maxBody {
		return &askError{path: path, what: "the answer is longer than 1 MiB"}
	}
	if json.Unmarshal(body, into) != nil { // its error may quote the answer
		return &askError{path: path, what: s.expected()}
	}
	return nil
}

// expected describes an answer with another content.
func (s *session) expected() string {
	if s.target.ActivityPath != "" {
		return "the answer has no valid last_activity or lastHeartbeat"
	}
	return "the answer is not one of Jupyter's API"
}

// check evaluates everything except the body.
func (s *session) check(path string, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return s.statusError(path, resp.StatusCode)
	}
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return &askError{path: path, what: "the answer is not JSON; is this the server of spec.server.type?"}
	}
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err == nil && date.Sub(s.clock.Now()).Abs() > maxSkew {
		return errClock
	}
	return nil
}

// terminals asks for the terminals. A server without terminals does not know the path.
func (s *session) terminals(ctx context.Context) (terminalsAnswer, error) {
	var terminals terminalsAnswer
	err := s.get(ctx, "/api/terminals", &terminals)
	if e, ok := errors.AsType[*askError](err); ok && e.status == http.StatusNotFound {
		return nil, nil
	}
	return terminals, err
}

// maxSkew is how much the server's clock may differ from ours, because times of both are
// compared.
const maxSkew = time.Minute

var (
	errNoToken = errors.New("the token is empty")
	errToken   = errors.New("the token cannot be sent: it contains control characters, a line break perhaps")
	errClock   = errors.New("the clock of the notebook's node differs from the operator's by more than a minute; set the nodes' clocks")
	errFuture  = errors.New("the server says that it was last used in the future; set the nodes' clocks")
)

// askError is the error for a request without a valid answer.
type askError struct {
	path string
	what string
	// status of the answer, if there was one.
	status int
}

// Error implements error with the path and the cause.
func (e *askError) Error() string { return "GET " + e.path + ": " + e.what }

// statusError is for an answer other than 200.
func (s *session) statusError(path string, code int) error {
	text := fmt.Sprintf("the server answered %d %s", code, http.StatusText(code))
	switch {
	case s.target.ActivityPath != "":
		text += ": spec.server.activityPath must answer 200 without credentials"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		text += ": it does not accept the token of spec.auth.tokenSecretRef; was that changed after the notebook started?"
	case code == http.StatusNotFound:
		text += ": is this a Jupyter server, and is its base_url that of spec.access.path?"
	case code/100 == 3:
		text += ": redirects are not followed"
	}
	return &askError{path: path, what: text, status: code}
}

// connectionError describes an error of net/http without its text, which contains
// addresses.
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
