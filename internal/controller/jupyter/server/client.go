package server

import (
	"context"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/utils/clock"
)

// maxHeaderBytes bounds the header of an answer.
const maxHeaderBytes = 64 << 10

// DialFunc connects. net.Dialer's DialContext is one.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Target is a server to ask.
type Target struct {
	// Address is the IP address and port of the server, such as 10.1.2.3:8888.
	Address string
	// Token that the server demands.
	Token string
}

// String tells the address: a Target that is printed must not tell its token.
func (t Target) String() string { return t.Address }

// GoString is String.
func (t Target) GoString() string { return t.Address }

// MarshalLog is String, for logr.
func (t Target) MarshalLog() any { return t.Address }

// Activity is what a server says of its use.
type Activity struct {
	// Last is when the server was last used: it or a terminal or kernel of it. It is
	// never later than the clock of the Client.
	Last time.Time
	// Busy: a kernel executes something, or is being started.
	Busy bool
	// Detail says in a few words what there is, such as "2 kernels, 1 busy; 1 terminal".
	Detail string
}

// Client asks. It is safe for concurrent use and keeps no connection.
type Client struct {
	clock clock.PassiveClock
	dial  DialFunc
}

// New returns a Client. dial is how servers are reached; nil is the network's way.
func New(clk clock.PassiveClock, dial DialFunc) *Client {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return &Client{clock: clk, dial: dial}
}

// Ask asks a server. The context bounds how long that may take. An error tells
// neither address nor token, and reads the same each time that the cause is the
// same.
func (c *Client) Ask(ctx context.Context, target Target) (Activity, error) {
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

// checkToken refuses what cannot be sent, before net/http quotes it.
func checkToken(token string) error {
	if token == "" {
		return errNoToken
	}
	if !httpguts.ValidHeaderFieldValue("token " + token) {
		return errToken
	}
	return nil
}

// session asks one server by one connection, which is closed at its end: of
// thousands of servers that are asked once a minute, none is worth a connection that
// is kept.
func (c *Client) session(target Target) (s *session, end func()) {
	transport := &http.Transport{
		Proxy:                  nil, // the token is for the server alone
		DialContext:            c.dial,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // what is read is bounded as it is sent
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
