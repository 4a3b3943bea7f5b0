package healthcheck_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/pkg/healthcheck"
)

func quietServer(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it is asked what it must complain of
	t.Cleanup(s.Close)
	return s
}

func serve(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := quietServer(t, handler)
	s.Start()
	return s
}

// askServer runs a check against a server that acts as the pod.
func askServer(t *testing.T, s *httptest.Server, check healthcheck.Check) string {
	t.Helper()
	return brief(run(t, checker(t, "http://unused.invalid", nil, dialTo(s.Listener.Addr().String())), check))
}

func respond(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func TestAnswersOfAPod(t *testing.T) {
	for what, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"200": {respond(200, "text/plain", "ok"), "Passed"},
		"204": {respond(204, "text/plain", ""), "Passed"},
		"301 to elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.9/followed", http.StatusMovedPermanently)
		}, "Passed"},
		"302 to itself": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/followed", http.StatusFound) }, "Passed"},
		"399":           {respond(399, "text/plain", ""), "Passed"},
		"400":           {respond(400, "", ""), "Failed answered 400 Bad Request"},
		"404":           {respond(404, "text/plain", "no such page\n"), "Failed answered 404 Not Found: no such page"},
		"500":           {respond(500, "application/json", `{"db": "down"}`), `Failed answered 500 Internal Server Error: {"db": "down"}`},
		"a problem":     {respond(503, "application/problem+json; charset=utf-8", "{\n \"title\": \"x\"\n}"), `Failed answered 503 Service Unavailable: { "title": "x" }`},
		"a page":        {respond(502, "text/html", "<html>oops</html>"), "Failed answered 502 Bad Gateway"},
		"599":           {respond(599, "text/plain", ""), "Failed answered 599"},
		"control codes": {respond(500, "text/plain", "a\x1b[31m\r\nb\x00\u202e"), "Failed answered 500 Internal Server Error: a[31m b"},
		"not text":      {respond(500, "text/plain", "\xff\xfe\x00"), "Failed answered 500 Internal Server Error"},
		"a long text": {respond(500, "text/plain", strings.Repeat("봉", 5000)),
			"Failed answered 500 Internal Server Error: " + strings.Repeat("봉", (512-37-3)/3) + "…"},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
		}, "Passed"},
		"without end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}, "Passed"},
		"slow drip": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		}, "Failed did not answer within 1 s"},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "Failed did not answer within 1 s"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "x")
		}, "Failed broke the connection off"},
		"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "Failed broke the connection off"},
		"a header without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}, "Failed did not answer in HTTP"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "followed") {
					t.Error("the redirect was followed")
				}
				tc.answer(w, r)
			})
			if diff := cmp.Diff(tc.want, askServer(t, s, get("/healthz"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnswersThatAreNotHTTP(t *testing.T) {
	for what, tc := range map[string]struct{ sends, want string }{
		"another protocol": {"SSH-2.0-OpenSSH_9.6\r\n", "Failed did not answer in HTTP"},
		"HTTP/1.0":         {"HTTP/1.0 200 OK\r\n\r\nhello", "Passed"},
		"half a line":      {"HTTP/1.1 20", "Failed did not answer in HTTP"},
		"no number":        {"HTTP/1.1 fine s3cret\r\n\r\n", "Failed did not answer in HTTP"},
		"nothing":          {"", "Failed broke the connection off"},
	} {
		t.Run(what, func(t *testing.T) {
			address := listen(t, func(conn net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, tc.sends)
			})
			expect(t, tc.want, run(t, checker(t, "http://unused.invalid", nil, dialTo(address)), get("/")))
		})
	}
}

// After 101, net/http gives the connection to the caller, and the end of the context no longer
// closes it.
func TestAPodThatSwitchesProtocolsHoldsNoCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		dial := func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer close(closed)
				_, _ = http.ReadRequest(bufio.NewReader(there))
				_, _ = io.WriteString(there, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				_, _ = io.Copy(io.Discard, there)
			}()
			return here, nil
		}
		expect(t, "Failed answered 101 Switching Protocols", checker(t, "http://unused.invalid", nil, dial).Run(t.Context(), get("/")))
		<-closed
	})
}

// listen serves connections with a function.
func listen(t *testing.T, play func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			play(conn)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestTLSIsNotVerified(t *testing.T) {
	t.Run("a server that offers HTTP/2", func(t *testing.T) {
		s := quietServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 1 {
				t.Errorf("asked in %s", r.Proto)
			}
			respond(418, "text/plain", "short and stout")(w, r)
		})
		s.EnableHTTP2 = true
		s.StartTLS()
		if diff := cmp.Diff("Failed answered 418 I'm a teapot: short and stout", askServer(t, s, get("/", https))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a server without TLS", func(t *testing.T) {
		if got := askServer(t, serve(t, respond(200, "", "")), get("/", https)); got != "Failed does not speak TLS" {
			t.Error(got)
		}
	})
	t.Run("a server with TLS asked without", func(t *testing.T) {
		s := quietServer(t, respond(200, "", ""))
		s.StartTLS()
		if got := askServer(t, s, get("/")); !strings.HasPrefix(got, "Failed answered 400 Bad Request") {
			t.Error(got)
		}
	})
	t.Run("a server that does not shake hands", func(t *testing.T) {
		address := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
		expect(t, "Failed did not answer within 1 s", run(t, checker(t, "http://unused.invalid", nil, dialTo(address)), get("/", https)))
	})
}

func TestAddressesThatRefuseAConnection(t *testing.T) {
	opError := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	blocked := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	}
	for what, tc := range map[string]struct {
		dial healthcheck.DialFunc
		want string
	}{
		"refused":        {dialTo(closedPort(t)), "Failed refused the connection"},
		"reset":          {dialError(opError(syscall.ECONNRESET)), "Failed refused the connection"},
		"no way":         {dialError(opError(syscall.EHOSTUNREACH)), "Unreachable there is no way to the pod"},
		"no network":     {dialError(opError(syscall.ENETUNREACH)), "Unreachable there is no way to the pod"},
		"no more files":  {dialError(opError(syscall.EMFILE)), "Unreachable the pod could not be reached"},
		"dropped":        {blocked, "Unreachable the pod could not be reached in time; does a NetworkPolicy keep the operator from it?"},
		"timed out":      {dialError(opError(syscall.ETIMEDOUT)), "Unreachable the pod could not be reached in time; does a NetworkPolicy keep the operator from it?"},
		"something else": {dialError(errors.New("to 192.0.2.7: refused, s3cret")), "Unreachable the pod could not be reached"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			expect(t, tc.want, run(t, checker(t, "http://unused.invalid", nil, tc.dial), get("/")))
		})
	}
}

func dialError(err error) healthcheck.DialFunc {
	return func(context.Context, string, string) (net.Conn, error) { return nil, err }
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestACheckConnectsOnlyToThePod(t *testing.T) {
	for what, tc := range map[string]struct{ ip, dialed string }{
		"IPv4":            {"192.0.2.7", "node-0 192.0.2.7:8080"},
		"IPv6":            {"2001:db8::7", "node-0 [2001:db8::7]:8080"},
		"none":            {"", ""},
		"a name":          {"pod.example", ""},
		"the operator":    {"127.0.0.1", ""},
		"itself, by IPv6": {"::1", ""},
		"a node's agent":  {"169.254.169.254", ""},
		"link-local":      {"fe80::1", ""},
		"everybody":       {"224.0.0.1", ""},
		"unspecified":     {"0.0.0.0", ""},
	} {
		t.Run(what, func(t *testing.T) {
			dialed := ""
			c := checker(t, "http://unused.invalid", nil, func(_ context.Context, node, address string) (net.Conn, error) {
				dialed = node + " " + address
				return nil, syscall.ECONNREFUSED
			})
			o := run(t, c, get("http://elsewhere.example/x", func(h *healthcheck.HTTP) { h.IP = tc.ip }))
			if dialed != tc.dialed {
				t.Errorf("dialed %q, want %q", dialed, tc.dialed)
			}
			if tc.dialed == "" {
				expect(t, "Unreachable the pod has no address that can be asked", o)
			}
		})
	}
}

func TestNoProxyIsUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	if got := askServer(t, serve(t, respond(200, "", "")), get("/")); got != "Passed" {
		t.Error(got)
	}
}

func TestTheRequestToThePod(t *testing.T) {
	for what, tc := range map[string]struct {
		check healthcheck.Check
		want  string // first line, Host, and given headers
	}{
		"nothing given":      {get(""), "GET / HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"a path and query":   {get("/a/b?c=d&e=%20f"), "GET /a/b?c=d&e=%20f HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"no slash":           {get("healthz"), "GET /healthz HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"an encoded path":    {get("/a%2Fb%20c"), "GET /a%2Fb%20c HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"to be encoded":      {get("/a b/é?x y=é\x01"), "GET /a%20b/%C3%A9?x%20y=%C3%A9%01 HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"no encoding":        {get("/100%?50%"), "GET /100%25?50% HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"another line":       {get("/a\r\nX-Evil: 1\r\n"), "GET /a%0D%0AX-Evil:%201%0D%0A HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"a fragment":         {get("/a?b#c"), "GET /a?b HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"another host":       {get("//evil.example/a"), "GET //evil.example/a HTTP/1.1|192.0.2.7:8080|Accept=*/*|User-Agent=bongsu"},
		"a name":             {get("/", header("host", "app.example:81")), "GET / HTTP/1.1|app.example:81|Accept=*/*|User-Agent=bongsu"},
		"headers":            {get("/", header("x-a", "1"), header("X-A", "2"), header("User-agent", "me"), header("Accept", "text/html")), "GET / HTTP/1.1|192.0.2.7:8080|Accept=text/html|User-Agent=me|X-A=1,2"},
		"credentials of its": {get("/", header("Authorization", "Bearer x")), "GET / HTTP/1.1|192.0.2.7:8080|Accept=*/*|Authorization=Bearer x|User-Agent=bongsu"},
	} {
		t.Run(what, func(t *testing.T) {
			got := ""
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				got = r.Method + " " + r.RequestURI + " " + r.Proto + "|" + r.Host
				for _, name := range []string{"Accept", "Authorization", "User-Agent", "X-A", "X-Evil"} {
					if v := r.Header.Values(name); v != nil {
						got += "|" + name + "=" + strings.Join(v, ",")
					}
				}
				if r.Header.Get("Connection") != "close" {
					t.Error("the connection is kept open")
				}
			})
			if o := askServer(t, s, tc.check); o != "Passed" {
				t.Error(o)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHeadersThatCannotBeSent(t *testing.T) {
	for what, tc := range map[string]struct{ name, value, want string }{
		"another line":    {"X-A", secret + "\r\nX-Evil: 1", "Unreachable header X-A of httpGet has a value that cannot be sent"},
		"a strange host":  {"Host", "a b/" + secret, "Unreachable header Host of httpGet has a value that cannot be sent"},
		"a strange name":  {"X A\n" + secret, "1", "Unreachable a header of httpGet has a name that cannot be sent"},
		"no name":         {"", "1", "Unreachable a header of httpGet has a name that cannot be sent"},
		"connection":      {"connection", "upgrade", "Unreachable header Connection of httpGet belongs to the connection: leave it out"},
		"upgrade":         {"Upgrade", "websocket", "Unreachable header Upgrade of httpGet belongs to the connection: leave it out"},
		"length":          {"Content-Length", "5", "Unreachable header Content-Length of httpGet belongs to the connection: leave it out"},
		"chunks":          {"transfer-encoding", "chunked", "Unreachable header Transfer-Encoding of httpGet belongs to the connection: leave it out"},
		"trailers":        {"TE", "trailers", "Unreachable header Te of httpGet belongs to the connection: leave it out"},
		"a proxy's":       {"Proxy-Authorization", secret, "Unreachable header Proxy-Authorization of httpGet belongs to the connection: leave it out"},
		"to be continued": {"Expect", "100-continue", "Unreachable header Expect of httpGet belongs to the connection: leave it out"},
	} {
		t.Run(what, func(t *testing.T) {
			c := checker(t, "http://unused.invalid", nil, func(context.Context, string, string) (net.Conn, error) {
				t.Error("the pod is dialed")
				return nil, syscall.ECONNREFUSED
			})
			expect(t, tc.want, run(t, c, get("/", header(tc.name, tc.value))))
		})
	}
}

func TestNoConnectionIsKept(t *testing.T) {
	var open, opened atomic.Int64
	s := quietServer(t, func(w http.ResponseWriter, r *http.Request) {
		code := 200
		if r.URL.Path == "/bad" {
			code = 500
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, strings.Repeat("x", 100_000))
	})
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
			opened.Add(1)
		case http.StateClosed:
			open.Add(-1)
		default:
		}
	}
	s.Start()
	c := checker(t, "http://unused.invalid", nil, dialTo(s.Listener.Addr().String()))
	for range 20 {
		run(t, c, get("/"))
		run(t, c, get("/bad"))
	}
	for deadline := time.Now().Add(10 * time.Second); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open", open.Load())
		}
	}
	if opened.Load() != 40 {
		t.Errorf("%d connections for 40 checks", opened.Load())
	}
}
