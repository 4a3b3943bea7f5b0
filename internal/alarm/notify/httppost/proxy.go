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
