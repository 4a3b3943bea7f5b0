// Package httppost posts a message to an HTTP server and says in a sentence what
// came of it: one request for each call, no redirect followed, no proxy where
// addresses are guarded, and no more read of an answer than is needed.
//
// It knows nothing of what it posts. Its errors hold neither URL, address,
// header nor answer.
package httppost

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// Limits of connections: thousands of receivers must not hold thousands of them.
const (
	maxIdleConns        = 100
	maxIdleConnsPerHost = 2
	idleConnTimeout     = 30 * time.Second
	handshakeTimeout    = 10 * time.Second
	pingAfter           = 15 * time.Second
	maxHeaderBytes      = 64 << 10
)

// Config of a Client.
type Config struct {
	// UserAgent is sent with each request.
	UserAgent string
	// Guard judges each address that is dialled, and proxies are ignored. Nil
	// allows all, and honours the environment's proxies.
	Guard *dialguard.Guard
	// Resolver looks up names; nil is the system's.
	Resolver *net.Resolver
	// Roots are the authorities that may sign a server's certificate; nil are the
	// system's.
	Roots *x509.CertPool
}

// Client posts. It is safe for concurrent use; one serves all receivers that may
// reach the same addresses.
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

// WithRoots returns a Client of the same kind that trusts these authorities alone.
// It has connections of its own, which close when they are idle.
func (c *Client) WithRoots(roots *x509.CertPool) *Client {
	cfg := c.config
	cfg.Roots = roots
	return New(cfg)
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Dial connects as posts do, but never through a proxy, for what does not speak HTTP.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.dialer.DialContext(ctx, "tcp", address)
}

// TLSConfig is that of posts.
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
