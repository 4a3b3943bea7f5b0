package httppost_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// In HTTP/2, a server could demand thousands of requests in an attempt, each with a TLS handshake
// and without a rate limit. It could also keep the operator busy with pings.
func TestServersThatOfferHTTP2AreAskedInHTTP1(t *testing.T) {
	for name, guard := range map[string]*dialguard.Guard{"guarded": allowing(loopback), "not guarded": nil} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 1 {
					t.Errorf("asked in %s", r.Proto)
				}
			}))
			server.EnableHTTP2 = true
			server.StartTLS()
			t.Cleanup(server.Close)
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			client := httppost.New(httppost.Config{Guard: guard, Roots: roots})
			t.Cleanup(client.Close)
			if err := client.Post(t.Context(), httppost.Request{URL: server.URL}); err != nil {
				t.Error(err)
			}
		})
	}
}
