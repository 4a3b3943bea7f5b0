package httppost_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
)

func TestAClientWithRootsTrustsOnlyThemAndKeepsItsGuard(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	if err := post(t, newClient(t, nil, nil).WithRoots(roots), server.URL); err != nil {
		t.Errorf("a server signed by the authority: %v", err)
	}
	if err := post(t, newClient(t, nil, nil).WithRoots(x509.NewCertPool()), server.URL); err == nil || !strings.Contains(err.Text, "unknown authority") {
		t.Errorf("a server signed by another: %v", err)
	}
	if err := post(t, newClient(t, dialguard.New(), nil).WithRoots(roots), server.URL); err == nil || !strings.Contains(err.Text, "may not reach") {
		t.Errorf("a forbidden address: %v", err)
	}
}
