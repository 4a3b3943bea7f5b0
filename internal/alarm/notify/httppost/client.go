// Package httppost posts messages over HTTP and explains failures in plain text.
//
// Each call makes one request and follows no redirects. A client that guards addresses resolves
// names itself, also if a proxy connects. Error texts contain no URL, address or header. The
// answer to a request that failed is in SendError.Answer, without what it repeats of the request.
package httppost

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// maxBody limits how much of a response is read, which is needed to reuse the
// connection, and how much Request.Classify sees.
const maxBody = 64 << 10

// keyHeader is Idempotency-Key in lower case; header names are case-insensitive. If a
// kept connection breaks, net/http silently repeats a POST with the canonical name. Post
// must make only one request.
const keyHeader = "idempotency-key"

// Client posts requests. It is safe for concurrent use. All receivers that may reach
// the same addresses share one.
type Client struct {
	http   *http.Client
	dial   dialguard.DialFunc
	proxy  proxyFunc // nil with a guard
	config Config
	tokens *tokens // nil without OAuth2
}

// keptSessions is the number of TLS sessions of a client with a certificate. With one of them, a
// connection needs no signature.
const keptSessions = 2

// New returns a Client.
func New(cfg Config) *Client {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.sessions = nil; cfg.Certificate != nil {
		cfg.sessions = tls.NewLRUClientSessionCache(keptSessions)
	}
	dialer := &net.Dialer{Resolver: cfg.Resolver, Timeout: connectTimeout}
	dial, post := dialguard.DialFunc(dialer.DialContext), dialguard.DialFunc(dialer.DialContext)
	if cfg.Guard != nil {
		dial, post = cfg.Guard.Dial(dialer), dialGuarded(cfg, dialer)
	}
	return &Client{
		config: cfg,
		dial:   dial,
		proxy:  newProxyFunc(cfg),
		http: &http.Client{
			Transport: newTransport(cfg, post),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// With returns a Client with another configuration. It has its own connections, which close
// when they are idle.
func (c *Client) With(change func(*Config)) *Client {
	cfg := c.config
	change(&cfg)
	return New(cfg)
}

// WithTimeout returns a Client with another Config.Timeout that shares the connections.
func (c *Client) WithTimeout(timeout time.Duration) *Client {
	with := *c
	with.config.Timeout = cmp.Or(timeout, defaultTimeout)
	return &with
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Dial connects like a post, but never through a proxy, for protocols other than HTTP.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.dial(ctx, "tcp", address)
}

// TLSConfig returns the TLS configuration of a connection to a host. ctx ends with the attempt.
func (c *Client) TLSConfig(ctx context.Context, host string) *tls.Config {
	return newHostConfig(ctx, c.config, host)
}

// newTransport returns a transport for HTTP/1.1. In HTTP/2, a hostile server can demand without end that
// a request is repeated, and can send pings without end. net/http obeys and answers.
func newTransport(cfg Config, dial dialguard.DialFunc) *http.Transport {
	return &http.Transport{
		Proxy:                  newProxyFunc(cfg),
		DialContext:            dial,
		TLSClientConfig:        newTLSConfig(cfg),
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		OnProxyConnectResponse: checkProxy,
		DialTLSContext:         dialTLS(cfg, dial),
	}
}

// checkProxy returns an error if a proxy does not connect to the server.
func checkProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return errProxyRefuses
	}
	return nil
}

// Post makes one request. It returns nil if the message was accepted, and a
// *notify.SendError otherwise.
func (c *Client) Post(ctx context.Context, r Request) error {
	if c.tokens != nil {
		return c.postWithToken(ctx, r)
	}
	return c.post(ctx, r)
}

func (c *Client) post(ctx context.Context, r Request) error {
	ctx, cancel := c.limitTime(ctx)
	defer cancel()
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return invalidRequest()
	}
	resp, err := c.http.Do(c.markProxy(req)) //nolint:bodyclose // readBody closes it
	if err != nil {
		return ConnectionError(cmp.Or(context.Cause(ctx), err))
	}
	response := newResponse(resp)
	response.Body = readBody(resp)
	if r.Classify != nil {
		r.Classify(response)
	}
	if response.Accepted {
		return nil
	}
	failure := response.sendError()
	if response.Status/100 != 2 {
		failure.Answer = notify.Excerpt(response.Body, textsOf(r))
	}
	return failure
}

// limitTime returns a context that ends if connecting, maybe through a proxy, takes too
// long. After that, it ends if the server does not answer in time.
func (c *Client) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+handshakeTimeout+c.config.Timeout)
	ctx, end := context.WithCancelCause(ctx)
	connected := func(httptrace.GotConnInfo) {
		answer, stop := context.WithTimeout(ctx, c.config.Timeout)
		context.AfterFunc(answer, func() { end(answer.Err()); stop() })
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: connected}), cancel
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, http.MethodPost), r.URL, bytes.NewReader(r.Body))
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
	if r.Key != "" {
		req.Header[keyHeader] = []string{r.Key}
	}
	return req, nil
}

// readBody reads the body up to maxBody. It ignores errors, because the status already
// says whether the message was accepted. After 101, the body is the connection itself: no context
// would end a read.
func readBody(resp *http.Response) []byte {
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return raw
}

// markProxy returns the request with a context that shows dialTLS whether it connects to a
// proxy.
func (c *Client) markProxy(r *http.Request) *http.Request {
	if c.proxy == nil {
		return r
	}
	if proxy, err := c.proxy(r); err != nil || proxy == nil {
		return r // Transport reports the error
	}
	return r.WithContext(context.WithValue(r.Context(), viaProxy{}, true))
}
