package httppost

import (
	"net/http"
	"time"
)

// RetryAfter calls retryAfter.
func RetryAfter(h http.Header) time.Duration { return retryAfter(h) }

// UsesProxies reports whether a client reads proxies from the environment.
func UsesProxies(c *Client) bool { return c.http.Transport.(*http.Transport).Proxy != nil }
