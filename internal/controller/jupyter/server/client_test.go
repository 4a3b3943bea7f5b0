package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
	"github.com/bongsu-io/bongsu/internal/testing/jupyterserver"
)

const token = "t0ken-that-nobody-may-see"

func kernel(state string, lastActivity time.Time) jupyterserver.Kernel {
	return jupyterserver.Kernel{State: state, LastActivity: lastActivity}
}

func kernels(all ...jupyterserver.Kernel) []jupyterserver.Kernel { return all }

// ask asks a server. The test fails if an error contains the token or the address.
func ask(t *testing.T, address string) (server.Activity, error) {
	t.Helper()
	return askWith(t, server.New(clock.RealClock{}, nil), server.Target{Address: address, Token: token})
}

func askWith(t *testing.T, c *server.Client, target server.Target) (server.Activity, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := c.Ask(ctx, target)
	if err != nil {
		if got != (server.Activity{}) {
			t.Errorf("an error comes with %+v", got)
		}
		for _, secret := range []string{token, target.Address, "127.0.0.1", "from-the-server"} {
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
				t.Errorf("the error contains %q: %s", secret, err)
			}
		}
	}
	return got, err
}

func TestTheNewestActivityOfEachKindCounts(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	for what, tc := range map[string]struct {
		state jupyterserver.State
		want  server.Activity
	}{
		"nothing runs": {
			jupyterserver.State{LastActivity: ago(50)},
			server.Activity{Server: ago(50), Detail: "no kernels; no terminals"},
		},
		"an idle kernel": {
			jupyterserver.State{LastActivity: ago(50), Kernels: kernels(kernel("idle", ago(40)))},
			server.Activity{Server: ago(50), Kernels: ago(40), Detail: "1 kernel; no terminals"},
		},
		"a kernel that has been silent for long, and is busy": {
			jupyterserver.State{LastActivity: ago(50), Kernels: kernels(kernel("idle", ago(45)), kernel("busy", ago(600)))},
			server.Activity{Server: ago(50), Kernels: ago(45), Busy: true, Detail: "2 kernels, 1 busy; no terminals"},
		},
		"a kernel that is being started": {
			jupyterserver.State{LastActivity: ago(50), Kernels: kernels(kernel("starting", ago(49)))},
			server.Activity{Server: ago(50), Kernels: ago(49), Busy: true, Detail: "1 kernel, 1 busy; no terminals"},
		},
		"a kernel that is being restarted": {
			jupyterserver.State{LastActivity: ago(50), Kernels: kernels(kernel("autorestarting", ago(49)))},
			server.Activity{Server: ago(50), Kernels: ago(49), Busy: true, Detail: "1 kernel, 1 busy; no terminals"},
		},
		"a state that is not known": {
			jupyterserver.State{LastActivity: ago(50), Kernels: kernels(kernel("from-the-server", ago(49)))},
			server.Activity{Server: ago(50), Kernels: ago(49), Busy: true, Detail: "1 kernel, 1 busy; no terminals"},
		},
		"a dead kernel": {
			jupyterserver.State{LastActivity: ago(50), Kernels: kernels(kernel("dead", ago(49)))},
			server.Activity{Server: ago(50), Kernels: ago(49), Detail: "1 kernel; no terminals"},
		},
		"a terminal only": {
			jupyterserver.State{LastActivity: ago(50), Terminals: []time.Time{ago(3), ago(20)}},
			server.Activity{Server: ago(50), Terminals: ago(3), Detail: "no kernels; 2 terminals"},
		},
		"terminals are switched off": {
			jupyterserver.State{LastActivity: ago(50), NoTerminals: true},
			server.Activity{Server: ago(50), Detail: "no kernels; no terminals"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			server := jupyterserver.New(t, token)
			server.Set(tc.state)
			got, err := ask(t, server.Address())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAServerBelowAPrefixIsAskedThere(t *testing.T) {
	srv := jupyterserver.New(t, token)
	srv.Set(jupyterserver.State{LastActivity: time.Now()})
	srv.Misbehave(http.StripPrefix("/team/lab", http.HandlerFunc(srv.Answer)).ServeHTTP)
	c := server.New(clock.RealClock{}, nil)
	if _, err := askWith(t, c, server.Target{Address: srv.Address(), Prefix: "/team/lab", Token: token}); err != nil {
		t.Error(err)
	}
	_, err := askWith(t, c, server.Target{Address: srv.Address(), Token: token})
	if err == nil || !strings.Contains(err.Error(), "GET /api/status: the server answered 404") {
		t.Errorf("without the prefix: got %v", err)
	}
}

func TestAnHTTPServerIsAskedWithoutTheTokenAtItsPath(t *testing.T) {
	used := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	for name, tc := range map[string]struct {
		answer string
		want   time.Time
		says   string
	}{
		"a time":              {`{"last_activity": "` + used.Format(time.RFC3339Nano) + `"}`, used, ""},
		"a heartbeat":         {fmt.Sprintf(`{"status": "alive", "lastHeartbeat": %d}`, used.UnixMilli()), used.Add(time.Minute), ""},
		"never used":          {`{"status": "expired", "lastHeartbeat": 0}`, time.UnixMilli(0).Add(time.Minute).UTC(), ""},
		"the time comes":      {fmt.Sprintf(`{"lastHeartbeat": %d}`, time.Now().Add(time.Hour).UnixMilli()), time.Time{}, "in the future"},
		"another answer":      {`{"status": "alive"}`, time.Time{}, "no valid last_activity or lastHeartbeat"},
		"a heartbeat of text": {`{"lastHeartbeat": "from-the-server"}`, time.Time{}, "no valid last_activity or lastHeartbeat"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.RequestURI != "/healthz" || r.Header.Get("Authorization") != "" {
					t.Errorf("got %s with authorization %q", r.RequestURI, r.Header.Get("Authorization"))
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tc.answer)
			}))
			defer srv.Close()
			got, err := askWith(t, server.New(clock.RealClock{}, nil), server.Target{Address: srv.Listener.Addr().String(), ActivityPath: "/healthz"})
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || !got.Server.Equal(tc.want) || got.Busy {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// code-server updates its lastHeartbeat at most once a minute. A probe in between must not
// take a server that is in use for an unused one.
func TestAHeartbeatCountsForAMinute(t *testing.T) {
	beat := time.Now().Add(-50 * time.Second)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status": "alive", "lastHeartbeat": %d}`, beat.UnixMilli())
	}))
	defer srv.Close()
	begun := time.Now()
	got, err := askWith(t, server.New(clock.RealClock{}, nil), server.Target{Address: srv.Listener.Addr().String(), ActivityPath: "/healthz"})
	if err != nil || got.Server.Before(begun) || got.Server.After(time.Now()) {
		t.Errorf("the last use is %v, %v, want the time of the answer", got.Server, err)
	}
}

func TestAnHTTPServerThatAsksForCredentialsIsAnError(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer srv.Close()
	_, err := askWith(t, server.New(clock.RealClock{}, nil), server.Target{Address: srv.Listener.Addr().String(), ActivityPath: "/used"})
	if err == nil || !strings.Contains(err.Error(), "GET /used: the server answered 401 Unauthorized: spec.server.activityPath must answer 200 without credentials") {
		t.Errorf("got %v", err)
	}
}

func TestAProbeIsNotAUse(t *testing.T) {
	server := jupyterserver.New(t, token)
	server.Set(jupyterserver.State{LastActivity: time.Now().Add(-time.Hour), Kernels: kernels(kernel("idle", time.Now().Add(-time.Hour)))})
	for range 3 {
		got, err := ask(t, server.Address())
		if err != nil {
			t.Fatal(err)
		}
		if since := time.Since(got.Server); since < time.Hour {
			t.Errorf("used %s ago, by our questions", since)
		}
	}
}

func TestInvalidAnswersAreErrors(t *testing.T) {
	respond := func(code int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	status := func(lastActivity string) http.HandlerFunc {
		return respond(200, "application/json", `{"last_activity": "`+lastActivity+`", "kernels": 0}`)
	}
	for what, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"forbidden":    {respond(403, "application/json", `{"message": "from-the-server"}`), "403 Forbidden: it does not accept the token"},
		"unauthorized": {respond(401, "application/json", `{}`), "401 Unauthorized: it does not accept the token"},
		"not found":    {respond(404, "text/html", ""), "is this a Jupyter server"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/from-the-server", http.StatusFound)
		}, "302 Found: redirects are not followed"},
		"error":             {respond(500, "application/json", `{"message": "from-the-server"}`), "answered 500"},
		"no content":        {respond(204, "application/json", ""), "answered 204"},
		"strange status":    {respond(299, "application/json", "{}"), "answered 299"},
		"HTML":              {respond(200, "text/html", "<html>from-the-server</html>"), "is not JSON"},
		"HTML named JSON":   {respond(200, "application/json", "<html>from-the-server</html>"), "not one of Jupyter's API"},
		"no type":           {respond(200, "", "{}"), "is not JSON"},
		"empty":             {respond(200, "application/json", ""), "not one of Jupyter's API"},
		"null":              {respond(200, "application/json", "null"), "not one of Jupyter's API"},
		"nothing in it":     {respond(200, "application/json", "{}"), "not one of Jupyter's API"},
		"a list":            {respond(200, "application/json", "[]"), "not one of Jupyter's API"},
		"half an answer":    {respond(200, "application/json", `{"last_activity": "2026-11-20T`), "not one of Jupyter's API"},
		"two answers":       {respond(200, "application/json", `{"last_activity": "2026-11-20T19:00:00Z"} {}`), "not one of Jupyter's API"},
		"no time":           {status("from-the-server"), "not one of Jupyter's API"},
		"a time of nowhere": {status("2026-11-20T19:00:00"), "not one of Jupyter's API"},
		"too long":          {respond(200, "application/json", `{"x": "`+strings.Repeat("x", 1<<20)+`"}`), "longer than 1 MiB"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
		}, "broke off"},
		"last used in the future": {status(time.Now().Add(2 * time.Minute).UTC().Format(time.RFC3339)), "used in the future"},
		"a clock that is ahead": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"last_activity": "2026-01-20T19:00:00Z"}`)
		}, "clock"},
		"a clock that is behind": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(-2*time.Minute).UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"last_activity": "2026-01-20T19:00:00Z"}`)
		}, "clock"},
	} {
		t.Run(what, func(t *testing.T) {
			server := jupyterserver.New(t, token)
			server.Set(jupyterserver.State{LastActivity: time.Now().Add(-time.Hour)})
			server.Misbehave(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/api/status") {
					tc.answer(w, r)
					return
				}
				server.Answer(w, r)
			})
			if _, err := ask(t, server.Address()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that says %q", err, tc.want)
			}
		})
	}
}

func TestEveryAnswerMustBeValid(t *testing.T) {
	for what, tc := range map[string]struct{ path, body string }{
		"kernels: null":          {"/api/kernels", `null`},
		"kernels: an object":     {"/api/kernels", `{}`},
		"kernels: no kernel":     {"/api/kernels", `[null]`},
		"kernels: no state":      {"/api/kernels", `[{"last_activity": "2026-01-20T19:00:00Z"}]`},
		"kernels: no activity":   {"/api/kernels", `[{"execution_state": "idle"}]`},
		"terminals: null":        {"/api/terminals", `null`},
		"terminals: no terminal": {"/api/terminals", `[null]`},
		"terminals: no activity": {"/api/terminals", `[{"name": "1"}]`},
	} {
		t.Run(what, func(t *testing.T) {
			server := jupyterserver.New(t, token)
			server.Set(jupyterserver.State{LastActivity: time.Now().Add(-time.Hour)})
			server.Misbehave(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != tc.path {
					server.Answer(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tc.body)
			})
			if got, err := ask(t, server.Address()); err == nil || !strings.HasPrefix(err.Error(), "GET "+tc.path) {
				t.Errorf("got %+v and %v, want an error that names %s", got, err, tc.path)
			}
		})
	}
}

func TestAUseInTheFutureIsAnError(t *testing.T) {
	ago, soon := time.Now().Add(-time.Hour), time.Now().Add(2*time.Minute)
	for what, state := range map[string]jupyterserver.State{
		"of a kernel":   {LastActivity: ago, Kernels: kernels(kernel("idle", soon))},
		"of a terminal": {LastActivity: ago, Terminals: []time.Time{soon}},
	} {
		t.Run(what, func(t *testing.T) {
			server := jupyterserver.New(t, token)
			server.Set(state)
			if _, err := ask(t, server.Address()); err == nil || !strings.Contains(err.Error(), "used in the future") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestATokenThatIsRefusedForTerminalsIsAnError(t *testing.T) {
	server := jupyterserver.New(t, token)
	server.Misbehave(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/terminals" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		server.Answer(w, r)
	})
	if _, err := ask(t, server.Address()); err == nil {
		t.Error("a server that keeps its terminals to itself was taken to have none")
	}
}

func TestAClockThatIsALittleAheadIsNow(t *testing.T) {
	server := jupyterserver.New(t, token)
	soon := time.Now().Add(30 * time.Second)
	server.Set(jupyterserver.State{LastActivity: soon, Kernels: kernels(kernel("idle", soon)), Terminals: []time.Time{soon}})
	got, err := ask(t, server.Address())
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []time.Time{got.Server, got.Kernels, got.Terminals} {
		if last.After(time.Now()) {
			t.Errorf("last used %s from now", time.Until(last))
		}
	}
}

func TestAServerThatDoesNotAnswerIsAnError(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	for what, tc := range map[string]struct{ address, want string }{
		"refused":    {closed.Listener.Addr().String(), "refused the connection"},
		"no address": {"nowhere at all", "address cannot be used"},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := ask(t, tc.address); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that says %q", err, tc.want)
			}
		})
	}
}

func TestAnAnswerThatDripsEndsWithTheContext(t *testing.T) {
	srv := jupyterserver.New(t, token)
	ctx, cancel := context.WithCancel(t.Context())
	srv.Misbehave(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	_, err := server.New(clock.RealClock{}, nil).Ask(ctx, server.Target{Address: srv.Address(), Token: token})
	if err == nil || !strings.Contains(err.Error(), "the probe was ended") {
		t.Errorf("got %v", err)
	}
}

func TestATokenThatCannotBeSentIsAnError(t *testing.T) {
	for what, bad := range map[string]string{"empty": "", "line break": token + "\n"} {
		t.Run(what, func(t *testing.T) {
			srv := jupyterserver.New(t, token)
			c := server.New(clock.RealClock{}, nil)
			if _, err := askWith(t, c, server.Target{Address: srv.Address(), Token: bad}); err == nil {
				t.Error("it was sent")
			}
			if srv.Questions() != 0 {
				t.Error("the server was asked")
			}
		})
	}
}

func TestATargetDoesNotPrintItsToken(t *testing.T) {
	target := server.Target{Address: "10.1.2.3:8888", Token: token}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, v := range []any{target, &target, []server.Target{target}} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, token) {
				t.Errorf("%s of %T contains the token: %s", format, v, got)
			}
		}
	}
	if got := fmt.Sprint(target.MarshalLog()); strings.Contains(got, token) {
		t.Errorf("the log contains the token: %s", got)
	}
}

func TestServersAreReachedOnlyThroughTheDialer(t *testing.T) {
	srv := jupyterserver.New(t, token)
	elsewhere := jupyterserver.New(t, token)
	t.Setenv("http_proxy", "http://"+elsewhere.Address())
	var dialled, open atomic.Int32
	dial := func(ctx context.Context, node, address string) (net.Conn, error) {
		if node != "node-0" || address != "10.1.2.3:8888" {
			t.Errorf("dials %s on node %q", address, node)
		}
		dialled.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", srv.Address())
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &countedConn{Conn: conn, open: &open}, nil
	}
	c := server.New(clock.RealClock{}, dial)
	for range 5 {
		if _, err := askWith(t, c, server.Target{Address: "10.1.2.3:8888", Node: "node-0", Token: token}); err != nil {
			t.Fatal(err)
		}
	}
	if elsewhere.Questions() != 0 {
		t.Error("a proxy was used")
	}
	if got := dialled.Load(); got != 5 {
		t.Errorf("%d connections for five times asking, want one each", got)
	}
	if got := open.Load(); got != 0 {
		t.Errorf("%d connections are kept open", got)
	}
}

// countedConn counts itself out when it is closed.
type countedConn struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
