package httppost

import (
	"net/http"
	"time"
)

// RetryAfter is retryAfter, for the fuzz test.
func RetryAfter(h http.Header) time.Duration { return retryAfter(h) }

// UsesProxies says whether a client would ask the environment for a proxy.
func UsesProxies(c *Client) bool { return c.http.Transport.(*http.Transport).Proxy != nil }
