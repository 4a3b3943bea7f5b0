package healthcheck_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
)

// BenchmarkHTTP is what a check costs, the server's part included: 5,000 pods that are
// checked every ten seconds are 500 a second.
func BenchmarkHTTP(b *testing.B) {
	s := serve(b, respond(200, "text/plain", "ok"))
	b.Run("connection_of_its_own", func(b *testing.B) {
		c := checker(b, "http://unused.invalid", nil, dialTo(s.Listener.Addr().String()))
		check := get("/healthz")
		b.ReportAllocs()
		for b.Loop() {
			if o := c.Run(b.Context(), check); o.Outcome != healthcheck.Passed {
				b.Fatal(o)
			}
		}
	})
	// For comparison: the cost if connections were kept.
	b.Run("connection_kept", func(b *testing.B) {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialTo(s.Listener.Addr().String())(ctx, "", "")
		}}
		defer transport.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://192.0.2.7:8080/healthz", http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
}
