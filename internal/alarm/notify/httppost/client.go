// Package httppost posts messages over HTTP and explains failures in plain text.
//
// Each call makes one request and follows no redirects. A client that guards addresses
// uses no proxy. Error texts contain no URL, address, header or part of the answer.
package httppost

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// Limits of connections, so that thousands of receivers do not hold thousands of them.
const (
	maxIdleConns        = 100
	maxIdleConnsPerHost = 2
	idleConnTimeout     = 30 * time.Second
	handshakeTimeout    = 10 * time.Second
	pingAfter           = 15 * time.Second
	maxHeaderBytes      = 64 << 10
)

// maxBody limits how much of a response is read, which is needed to reuse the
// connection, and how much Request.Classify sees.
const maxBody = 64 << 10

// keyHeader is Idempotency-Key in lower case; header names are case-insensitive. If a
// kept connection breaks, net/http silently repeats a POST with the canonical name. Post
// must make only one request.
const keyHeader = "idempotency-key"

// Config of a Client.
type Config struct {
	// UserAgent is sent with each request.
	UserAgent string
	// Guard checks each address before the client connects. A client with a Guard uses
	// no proxy. Nil allows all addresses and uses the environment's proxies.
	Guard *dialguard.Guard
	// Resolver resolves names; nil is the system's.
	Resolver *net.Resolver
	// Roots are the trusted certificate authorities; nil means those of the system.
	Roots *x509.CertPool
}

// Client posts requests. It is safe for concurrent use. All receivers that may reach
// the same addresses share one.
type Client struct {
	http   *http.Client
	dialer *net.Dialer
	config Config
}

// New returns a Client.
func New(cfg Config) *Client {
	dialer := &net.Dialer{Resolver: cfg.Resolver}
	if cfg.Guard != nil {
		dialer.Control = cfg.Guard.Control
	}
	return &Client{
		config: cfg,
		dialer: dialer,
		http: &http.Client{
			Transport: newTransport(cfg, dialer),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// WithRoots returns a Client with the same configuration that trusts only these
// authorities. It has its own connections, which close when they are idle.
func (c *Client) WithRoots(roots *x509.CertPool) *Client {
	cfg := c.config
	cfg.Roots = roots
	return New(cfg)
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Dial connects like a post, but never through a proxy, for protocols other than HTTP.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.dialer.DialContext(ctx, "tcp", address)
}

// TLSConfig returns the TLS configuration of posts.
func (c *Client) TLSConfig() *tls.Config { return newTLSConfig(c.config) }

func newTLSConfig(cfg Config) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots}
}

func newTransport(cfg Config, dialer *net.Dialer) *http.Transport {
	proxy := http.ProxyFromEnvironment
	if cfg.Guard != nil {
		proxy = nil
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        newTLSConfig(cfg),
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
	}
}

// Request is one POST.
type Request struct {
	URL string
	// Header is sent in addition to the headers of every request. Without a Content-Type
	// the body is JSON.
	Header http.Header
	// Key is the Idempotency-Key.
	Key  string
	Body []byte
	// Classify changes the evaluation of the response if its body says more than its
	// status. Optional.
	Classify func(*Response)
}

// Post makes one request. It returns nil if the message was accepted, and a
// *notify.SendError otherwise.
func (c *Client) Post(ctx context.Context, r Request) error {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return invalidRequest()
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // readBody closes it
	if err != nil {
		return ConnectionError(err)
	}
	response := newResponse(resp)
	response.Body = readBody(resp.Body)
	if r.Classify != nil {
		r.Classify(response)
	}
	if response.Accepted {
		return nil
	}
	return response.sendError()
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.config.UserAgent)
	req.Header[keyHeader] = []string{r.Key}
	return req, nil
}

// readBody reads the body up to maxBody. It ignores errors, because the status already
// says whether the message was accepted.
func readBody(body io.ReadCloser) []byte {
	defer func() { _ = body.Close() }()
	raw, _ := io.ReadAll(io.LimitReader(body, maxBody))
	return raw
}
