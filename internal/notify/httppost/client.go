// Package httppost posts a message to an HTTP server and says in a sentence what
// came of it: one request for each call, no redirect followed, no proxy where
// addresses are guarded, and no more read of an answer than is needed.
//
// It knows nothing of what it posts. Its errors hold neither URL, address,
// header nor answer.
package httppost

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/bongsu-io/bongsu/internal/notify/dialguard"
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
}

// Client posts. It is safe for concurrent use; one serves all receivers that may
// reach the same addresses.
type Client struct {
	http      *http.Client
	userAgent string
}

// New returns a Client.
func New(cfg Config) *Client {
	return &Client{
		userAgent: cfg.UserAgent,
		http: &http.Client{
			Transport: newTransport(cfg),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func newTransport(cfg Config) *http.Transport {
	dialer := &net.Dialer{Resolver: cfg.Resolver}
	proxy := http.ProxyFromEnvironment
	if cfg.Guard != nil {
		dialer.Control = cfg.Guard.Control
		proxy = nil
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
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
