package httppost_test

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/dns"
)

// company is a network whose servers can be reached through a proxy only: hook.example.com, which
// TLS knows as example.com, has the address 203.1.0.1.
type company struct {
	t      *testing.T
	proxy  *httptest.Server
	server *httptest.Server

	mu       sync.Mutex
	asked    []string // by CONNECT, with the credentials
	received []string // host names of requests
	answer   func(http.ResponseWriter)
}

func newCompany(t *testing.T) *company {
	c := &company{t: t}
	c.server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received = append(c.received, r.Host+" as "+r.TLS.ServerName)
	}))
	t.Cleanup(c.server.Close)
	c.proxy = httptest.NewServer(http.HandlerFunc(c.connect))
	t.Cleanup(c.proxy.Close)
	t.Setenv("HTTPS_PROXY", strings.Replace(c.proxy.URL, "//", "//ops:hunter22@", 1))
	t.Setenv("HTTP_PROXY", "")
	t.Setenv("NO_PROXY", "inside.example")
	return c
}

func (c *company) connect(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		answer(w)
		return
	}
	to, err := net.Dial("tcp", c.server.Listener.Addr().String())
	if err != nil {
		c.t.Error(err)
		return
	}
	defer func() { _ = to.Close() }()
	w.WriteHeader(http.StatusOK)
	from, read, err := http.NewResponseController(w).Hijack() // read can contain what the client has sent since
	if err != nil {
		c.t.Error(err)
		return
	}
	defer func() { _ = from.Close() }()
	go func() { _, _ = io.Copy(to, read) }()
	_, _ = io.Copy(from, to)
}

// set sets what the proxy answers.
func (c *company) set(answer func(http.ResponseWriter)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

// requests returns what the proxy was asked, and what the server received.
func (c *company) requests() (asked, received []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked), slices.Clone(c.received)
}

// client returns a client that is guarded, and trusts the server.
func (c *company) client(guard *dialguard.Guard) *httppost.Client {
	resolver := dns.NewResolver(c.t, map[string]string{
		"example.com": "203.1.0.1", "internal.example": "10.0.0.1", "inside.example": "127.0.0.1",
	})
	return newClient(c.t, guard, resolver).With(func(config *httppost.Config) {
		config.Roots = x509.NewCertPool()
		config.Roots.AddCert(c.server.Certificate())
	})
}

func TestAGuardedClientAsksTheProxyForTheAddressThatItChecked(t *testing.T) {
	c := newCompany(t)
	if err := post(t, c.client(allowing()), "https://example.com/hook"); err != nil {
		t.Error(err)
	}
	asked, received := c.requests()
	if diff := cmp.Diff([]string{"CONNECT 203.1.0.1:443 Basic b3BzOmh1bnRlcjIy"}, asked); diff != "" {
		t.Errorf("the proxy was asked: %s", diff)
	}
	if diff := cmp.Diff([]string{"example.com as example.com"}, received); diff != "" {
		t.Errorf("the server received: %s", diff)
	}
}

func TestAGuardedClientBehindAProxyReachesNothingThatIsForbidden(t *testing.T) {
	c := newCompany(t)
	var texts []string
	for _, host := range []string{"internal.example", "missing.example", "10.0.0.1", "169.254.169.254"} {
		err := post(t, c.client(allowing()), "https://"+host+"/hook")
		if err == nil || err.Reason != v1alpha1.ReasonAddressNotAllowed {
			t.Errorf("%s: got %+v", host, err)
			continue
		}
		texts = append(texts, err.Text)
	}
	for _, text := range texts {
		if text != texts[0] || !strings.HasSuffix(text, "If only the proxy can resolve the host, ask for a ClusterAlarmReceiver") {
			t.Errorf("the texts differ, or lack a hint: %q", text)
		}
	}
	if asked, _ := c.requests(); len(asked) > 0 {
		t.Errorf("the proxy was asked: %s", asked)
	}
}

func TestAGuardedClientConnectsItselfToHostsWithoutAProxy(t *testing.T) {
	c := newCompany(t)
	_, port, err := net.SplitHostPort(c.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	got := post(t, c.client(allowing(loopback)), "https://inside.example:"+port+"/hook")
	if asked, _ := c.requests(); got == nil || !strings.Contains(got.Text, "for another host name") || len(asked) > 0 {
		t.Errorf("got %v, and the proxy was asked %s, want the server's certificate", got, asked)
	}
}

func TestAGuardedClientNamesTheProxyThatFails(t *testing.T) {
	c := newCompany(t)
	refuses := func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		proxy  string
		want   string
	}{
		"it refuses":      {refuses, c.proxy.URL, "the proxy refuses to connect to the receiver's address: ask the administrator"},
		"it breaks off":   {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, c.proxy.URL, "the connection to the receiver broke off"},
		"it is down":      {nil, "http://127.0.0.1:1", "the proxy cannot be reached"},
		"it has no TLS":   {nil, strings.Replace(c.proxy.URL, "http:", "https:", 1), "the proxy cannot be reached"},
		"it speaks SOCKS": {nil, "socks5://127.0.0.1:1", "the proxy cannot be reached"},
		"it is no URL":    {nil, "http://[", "the proxy cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			c.set(tc.answer)
			t.Setenv("HTTPS_PROXY", tc.proxy)
			err := post(t, c.client(allowing()), "https://example.com/hook")
			if err == nil || !strings.Contains(err.Text, tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAGuardedClientDoesNotWaitForAProxyThatHangs(t *testing.T) {
	c := newCompany(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.set(func(http.ResponseWriter) { <-ctx.Done() })
	short, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	err := postWith(t, short, c.client(allowing()), "https://example.com/hook")
	cancel()
	if err == nil || !strings.Contains(err.Text, "in time") {
		t.Errorf("got %v", err)
	}
}
