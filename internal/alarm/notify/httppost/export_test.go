package httppost

import (
	"context"
	"net"
	"net/http"
	"time"
)

// RetryAfter calls retryAfter.
func RetryAfter(h http.Header) time.Duration { return retryAfter(h) }

// UsesProxies reports whether a client reads proxies from the environment.
func UsesProxies(c *Client) bool { return c.http.Transport.(*http.Transport).Proxy != nil }

// SetDial replaces the connections of a client.
func SetDial(c *Client, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.http.Transport.(*http.Transport).DialContext = dial
}
