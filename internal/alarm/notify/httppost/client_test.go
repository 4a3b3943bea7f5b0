package httppost_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/dns"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

var loopback = netip.MustParsePrefix("127.0.0.0/8")

func allowing(allowed ...netip.Prefix) *dialguard.Guard {
	return dialguard.New(clock.RealClock{}, dialguard.Config{Allowed: allowed})
}

func newClient(t *testing.T, guard *dialguard.Guard, resolver *net.Resolver) *httppost.Client {
	t.Helper()
	c := httppost.New(httppost.Config{UserAgent: "bongsu/test", Guard: guard, Resolver: resolver})
	t.Cleanup(c.Close)
	return c
}

// post makes a request with a timeout, and returns its error as the Dispatcher sees it.
func post(t *testing.T, c *httppost.Client, url string) *notify.SendError {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return postWith(t, ctx, c, url)
}

func postWith(t *testing.T, ctx context.Context, c *httppost.Client, url string) *notify.SendError {
	t.Helper()
	err := c.Post(ctx, httppost.Request{URL: url, Key: "key-1", Body: []byte(`{"a":1}`)})
	if err == nil {
		return nil
	}
	sendError, ok := errors.AsType[*notify.SendError](err)
	if !ok {
		t.Fatalf("error is a %T, want *notify.SendError", err)
	}
	assertNothingRevealed(t, sendError, url)
	return sendError
}

// assertNothingRevealed fails if the error contains any part of the URL.
func assertNothingRevealed(t *testing.T, err *notify.SendError, rawURL string) {
	t.Helper()
	u, parseErr := url.Parse(rawURL)
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	for _, part := range []string{rawURL, u.Host, u.Hostname(), u.Port(), strings.Trim(u.Path, "/"), "secret", "127.0.0"} {
		if part != "" && strings.Contains(err.Error(), part) {
			t.Errorf("the error reveals %q: %s", part, err)
		}
	}
}

func TestPostSendsBodyAndHeaders(t *testing.T) {
	server := sink.New(t)
	client := newClient(t, nil, nil)
	if err := post(t, client, server.URL()); err != nil {
		t.Fatal(err)
	}
	got := server.Accepted()[0]
	if !bytes.Equal(got.Body, []byte(`{"a":1}`)) {
		t.Errorf("body is %s", got.Body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "bongsu/test", "Idempotency-Key": "key-1", "Content-Length": "7",
	} {
		if got := got.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestPostClassifiesEveryStatus(t *testing.T) {
	server := sink.New(t)
	client := newClient(t, nil, nil)
	for want, codes := range map[notify.Class][]int{
		notify.Retry:  {408, 409, 425, 429, 500, 502, 503, 504, 599},
		notify.Reject: {400, 413, 422},
		notify.Stop:   {300, 301, 302, 303, 304, 307, 308, 401, 402, 403, 404, 405, 407, 410, 415, 418, 451},
	} {
		for _, code := range codes {
			server.Script(sink.Status(code, "secret"))
			err := post(t, client, server.URL())
			if err == nil || err.Class != want || err.Reason != v1alpha1.ReasonDeliveryFailing {
				t.Errorf("%d: got %+v, want class %s", code, err, want)
			}
		}
	}
	for _, code := range []int{200, 201, 202, 204} {
		server.Script(sink.Status(code, ""))
		if err := post(t, client, server.URL()); err != nil {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestPostReadsRetryAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		retryAfter, date string
		want             time.Duration
	}{
		"seconds":          {"17", "", 17 * time.Second},
		"date":             {"Fri, 20 Nov 2026 19:02:00 GMT", "Fri, 20 Nov 2026 19:00:00 GMT", 2 * time.Minute},
		"date in the past": {"Fri, 20 Nov 2026 18:02:00 GMT", "Fri, 20 Nov 2026 19:00:00 GMT", 0},
		"none":             {"", "", 0},
		"negative":         {"-5", "", 0},
		"nonsense":         {"soon", "", 0},
		"too large":        {"99999999999999999999", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tc.date != "" {
					w.Header().Set("Date", tc.date)
				}
				w.Header().Set("Retry-After", tc.retryAfter)
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			t.Cleanup(server.Close)
			if err := post(t, newClient(t, nil, nil), server.URL); err.RetryAfter != tc.want {
				t.Errorf("RetryAfter is %s, want %s", err.RetryAfter, tc.want)
			}
		})
	}
}

func TestPostRetriesConnectionErrors(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	noTLS := sink.New(t)
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	resetting := sink.New(t)
	resetting.Always(sink.Reset())
	resolver := dns.NewResolver(t, nil)
	for name, tc := range map[string]struct{ url, want string }{
		"refused":   {closed.URL, "refused the connection"},
		"reset":     {resetting.URL(), "broke off"},
		"no TLS":    {strings.Replace(noTLS.URL(), "http:", "https:", 1), "does not speak TLS"},
		"untrusted": {untrusted.URL, "unknown authority"},
		"no name":   {"http://nowhere.example/secret", "host name does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			err := post(t, newClient(t, nil, resolver), tc.url)
			if err == nil || err.Class != notify.Retry || !strings.Contains(err.Text, tc.want) {
				t.Errorf("got %+v, want a Retry with the text %q", err, tc.want)
			}
		})
	}
}

func TestPostRetriesTimeouts(t *testing.T) {
	server := sink.New(t)
	server.Always(sink.Hang())
	err := post(t, newClient(t, nil, nil).WithTimeout(20*time.Millisecond), server.URL()) // of the answer only
	if err == nil || err.Class != notify.Retry || !strings.Contains(err.Text, "did not answer in time") {
		t.Errorf("got %+v, want a Retry because of the timeout", err)
	}
}

func TestPostSucceedsAfterA2xxStatusEvenIfTheBodyBreaksOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler) // closes the connection within the body
	}))
	t.Cleanup(server.Close)
	if err := post(t, newClient(t, nil, nil), server.URL); err != nil {
		t.Errorf("a 200 whose body breaks off: %v", err)
	}
}

// The timeout must expire after the status arrived, while the body is read. A busy
// machine may need longer until then, so the test tries longer timeouts.
func TestPostSucceedsAfterA2xxStatusEvenIfTheBodyNeverEnds(t *testing.T) {
	server := sink.New(t)
	server.Always(sink.Drip(time.Hour))
	var err *notify.SendError
	for _, within := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 30 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err = postWith(t, ctx, newClient(t, nil, nil), server.URL())
		cancel()
		if err == nil {
			return
		}
	}
	t.Errorf("a 200 whose body never ends: %v", err)
}

func TestPostIsOneRequestEvenWhenAKeptConnectionBreaks(t *testing.T) {
	server := sink.New(t)
	server.Script(sink.Accept(), sink.Reset())
	client := newClient(t, nil, nil)
	first, second := post(t, client, server.URL()), post(t, client, server.URL())
	if first != nil || second == nil {
		t.Errorf("got %v and %v, want an accepted and a broken request", first, second)
	}
	if n := len(server.Requests()); n != 2 {
		t.Errorf("the server saw %d requests for 2 posts", n)
	}
}

func TestPostKeepsConnections(t *testing.T) {
	var connections sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections.Store(r.RemoteAddr, true)
		_, _ = w.Write(bytes.Repeat([]byte("x"), 32<<10))
	}))
	t.Cleanup(server.Close)
	client := newClient(t, nil, nil)
	const posts = 10
	for range posts {
		if err := post(t, client, server.URL); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	connections.Range(func(any, any) bool { n++; return true })
	// One is normal. On a busy machine, net/http closes a connection if it notices the
	// end of the request after the end of the response.
	if n > posts/2 {
		t.Errorf("%d posts took %d connections: response bodies are not read", posts, n)
	}
}

func TestPostDoesNotFollowRedirects(t *testing.T) {
	target := sink.New(t)
	server := sink.New(t)
	client := newClient(t, nil, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		server.Script(sink.Redirect(code, target.URL()))
		if err := post(t, client, server.URL()); err == nil || err.Class != notify.Stop {
			t.Errorf("%d: got %v, want Stop", code, err)
		}
	}
	if n := len(target.Requests()); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestGuardedClientRefusesForbiddenAddresses(t *testing.T) {
	server := sink.New(t)
	port, _, _ := strings.Cut(strings.TrimPrefix(server.URL(), "http://127.0.0.1:"), "/")
	resolver := dns.NewResolver(t, map[string]string{
		"internal.example": "127.0.0.1", "mapped.example": "::ffff:127.0.0.1", "metadata.example": "169.254.169.254",
	})
	guarded := newClient(t, allowing(), resolver)
	for name, url := range map[string]string{
		"address":             server.URL(),
		"IPv4-mapped address": "http://[::ffff:127.0.0.1]:" + port,
		"NAT64 address":       "http://[64:ff9b::7f00:1]:" + port,
		"unspecified address": "http://0.0.0.0:" + port,
		"name":                "http://internal.example:" + port,
		"name, IPv4-mapped":   "http://mapped.example:" + port,
		"name, metadata":      "http://metadata.example/latest/meta-data",
		"name, HTTPS":         "https://internal.example:" + port,
	} {
		t.Run(name, func(t *testing.T) {
			err := post(t, guarded, url)
			if err == nil || err.Class != notify.Stop || err.Reason != v1alpha1.ReasonAddressNotAllowed {
				t.Errorf("got %+v, want Stop with AddressNotAllowed", err)
			}
		})
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests reached a forbidden address", n)
	}
}

// A tenant could ask for the names of an internal network otherwise.
func TestAGuardedClientDoesNotShowWhichNamesExist(t *testing.T) {
	resolver := dns.NewResolver(t, map[string]string{
		"internal.example": "10.0.0.1", "v6.example": "fd00::1", "node.example": "127.0.0.1", "empty.example": "",
	})
	guarded := newClient(t, allowing(), resolver)
	want := post(t, guarded, "https://missing.example/")
	if want == nil || want.Class != notify.Stop || want.Reason != v1alpha1.ReasonAddressNotAllowed {
		t.Fatalf("a missing name: %+v", want)
	}
	for _, host := range []string{"internal.example", "v6.example", "node.example", "empty.example", "10.0.0.1", "[fd00::1]", "not..valid"} {
		for _, scheme := range []string{"http", "https"} {
			if diff := cmp.Diff(want, post(t, guarded, scheme+"://"+host+"/")); diff != "" {
				t.Errorf("%s://%s has another error than a missing name:\n%s", scheme, host, diff)
			}
		}
		conn, err := guarded.Dial(t.Context(), net.JoinHostPort(strings.Trim(host, "[]"), "25"))
		if err == nil {
			_ = conn.Close()
		}
		if diff := cmp.Diff(want, httppost.ConnectionError(err)); diff != "" {
			t.Errorf("a connection to %s has another error than a missing name:\n%s", host, diff)
		}
	}
}

func TestAGuardedClientReachesAllowedHostsOnly(t *testing.T) {
	server := sink.New(t)
	resolver := dns.NewResolver(t, map[string]string{"a.example": "127.0.0.1", "b.example": "127.0.0.1"})
	client := newClient(t, dialguard.New(clock.RealClock{}, dialguard.Config{
		Allowed: []netip.Prefix{loopback}, Hosts: []string{"a.example"},
	}), resolver)
	if err := post(t, client, strings.Replace(server.URL(), "127.0.0.1", "a.example", 1)); err != nil {
		t.Errorf("the allowed host: %v", err)
	}
	for _, host := range []string{"b.example", "127.0.0.1"} {
		if err := post(t, client, strings.Replace(server.URL(), "127.0.0.1", host, 1)); err == nil || err.Reason != v1alpha1.ReasonAddressNotAllowed {
			t.Errorf("%s: got %+v", host, err)
		}
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestAnAddressThatCannotBeCheckedIsRetried(t *testing.T) {
	client := newClient(t, dialguard.New(clock.RealClock{}, dialguard.Config{Nodes: noNodes{}}), nil)
	err := post(t, client, "http://203.1.0.1/")
	if err == nil || err.Class != notify.Retry || !strings.Contains(err.Text, "could not check whether the receiver's address is allowed") {
		t.Errorf("got %+v", err)
	}
}

// noNodes are Nodes that cannot be read.
type noNodes struct{}

func (noNodes) Range(context.Context, netip.Addr) (netip.Prefix, error) {
	return netip.Prefix{}, errors.New("cache not started")
}

func TestGuardedClientReachesAllowedRangesByName(t *testing.T) {
	server := sink.New(t)
	url := strings.Replace(server.URL(), "127.0.0.1", "internal.example", 1)
	resolver := dns.NewResolver(t, map[string]string{"internal.example": "127.0.0.1"})
	if err := post(t, newClient(t, allowing(loopback), resolver), url); err != nil {
		t.Error(err)
	}
}

// A guarded client asks a proxy for addresses only: see TestAGuardedClientAsksTheProxyForTheAddressThatItChecked.
func TestOnlyUnguardedClientsAskAProxyForNames(t *testing.T) {
	got := map[string]bool{
		"guarded":   httppost.UsesProxies(newClient(t, allowing(), nil)),
		"unguarded": httppost.UsesProxies(newClient(t, nil, nil)),
		"guarded, with a proxy of its own": httppost.UsesProxies(newClient(t, allowing(), nil).With(func(c *httppost.Config) {
			c.Proxy = &url.URL{Scheme: "http", Host: "proxy.example"}
		})),
	}
	want := map[string]bool{"guarded": false, "unguarded": true, "guarded, with a proxy of its own": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAClientWithRootsTrustsOnlyThemAndKeepsItsGuard(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	if err := post(t, newClient(t, nil, nil).With(func(c *httppost.Config) { c.Roots = roots }), server.URL); err != nil {
		t.Errorf("a server signed by the authority: %v", err)
	}
	if err := post(t, newClient(t, nil, nil).With(func(c *httppost.Config) { c.Roots = x509.NewCertPool() }), server.URL); err == nil || !strings.Contains(err.Text, "unknown authority") {
		t.Errorf("a server signed by another: %v", err)
	}
	if err := post(t, newClient(t, allowing(), nil).With(func(c *httppost.Config) { c.Roots = roots }), server.URL); err == nil || !strings.Contains(err.Text, "may not reach its address") {
		t.Errorf("a forbidden address: %v", err)
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("30", "")
	f.Add("Fri, 20 Nov 2026 19:02:00 GMT", "Fri, 20 Nov 2026 19:00:00 GMT")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT")
	f.Fuzz(func(t *testing.T, retryAfter, date string) {
		h := http.Header{"Retry-After": {retryAfter}, "Date": {date}}
		if got := httppost.RetryAfter(h); got < 0 {
			t.Errorf("Retry-After %q at %q gives %s", retryAfter, date, got)
		}
	})
}
