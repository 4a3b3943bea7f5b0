package httppost

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

// proxyFunc returns the proxy of a request; nil if it needs none.
type proxyFunc func(*http.Request) (*url.URL, error)

func newProxyFunc(cfg Config) proxyFunc {
	switch {
	case cfg.Guard != nil:
		return nil
	case cfg.Proxy != nil:
		return http.ProxyURL(cfg.Proxy)
	default:
		return http.ProxyFromEnvironment
	}
}

// viaProxy is the key of the context of a request that a proxy forwards.
type viaProxy struct{}

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

// dialTLS returns a function that connects with TLS to the server, or to its proxy. Transport
// would show the proxy the client's certificate.
func dialTLS(cfg Config, dial dialguard.DialFunc) dialguard.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		cfg := cfg
		if ctx.Value(viaProxy{}) != nil {
			cfg.Certificate, cfg.sessions = nil, nil
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		config := newHostConfig(ctx, cfg, host)
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return secure, nil
	}
}
