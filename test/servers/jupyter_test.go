package servers

import (
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/culling"
	"github.com/bongsu-io/bongsu/internal/controller/jupyter/server"
)

const token = "the-token-of-the-test"

// jupyter is a running Jupyter server.
type jupyter struct {
	t *testing.T
	server.Target
}

// startJupyter skips the test if there is no Jupyter server.
func startJupyter(t *testing.T) *jupyter {
	t.Helper()
	program, err := exec.LookPath("jupyter-server")
	if err != nil {
		t.Skip("no Jupyter server: run `make e2e-servers` as root, which installs Debian's package jupyter-server")
	}
	address := start(t, "/api", []string{"JUPYTER_TOKEN=" + token}, func(host, port string) []string {
		return []string{program, "--no-browser", "--allow-root", "--ip=" + host, "--port=" + port, "--ServerApp.port_retries=0"}
	})
	return &jupyter{t, server.Target{Address: address, Token: token}}
}

// use sends a request that counts as use of the server, as an open browser tab does.
func (j *jupyter) use(method, path string) string {
	j.t.Helper()
	status, body := request(j.t, method, "http://"+j.Address+path, "token "+token)
	if status/100 != 2 {
		j.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
	return body
}

// An open terminal without activity counts for the time of openTerminalSeconds, and not after
// it was closed. A browser tab counts for activity Server only. For activity Kernels, neither
// counts.
func TestAnOpenTerminalAndABrowserTabCountAsTheActivityOfCullingSays(t *testing.T) {
	t.Parallel()
	j := startJupyter(t)
	kernels := newNotebook(v1alpha1.CullingActivityKernels, 0)
	short := newNotebook(v1alpha1.CullingActivityKernelsAndTerminals, 2*idle)
	long := newNotebook(v1alpha1.CullingActivityKernelsAndTerminals, time.Hour)
	tab := newNotebook(v1alpha1.CullingActivityServer, 0)
	notebooks := []*notebook{kernels, short, long, tab}

	j.use(http.MethodPost, "/api/terminals")
	opened := ask(t, j.Target).Terminals
	if opened.IsZero() {
		t.Fatal("the server does not list the terminal")
	}
	watch(t, j.Target, notebooks, func(culling.Observation) {
		j.use(http.MethodGet, "/api/contents") // as the tab does
	}, func() bool { return !kernels.culled.IsZero() })
	expectReason(t, short, v1alpha1.ReasonTerminalOpen)
	expectReason(t, long, v1alpha1.ReasonTerminalOpen)
	expectReason(t, tab, v1alpha1.ReasonActive)

	watch(t, j.Target, notebooks, func(o culling.Observation) {
		j.use(http.MethodGet, "/api/contents")
		if !o.Terminals.Equal(opened) {
			t.Fatalf("requests of a tab and of probes count as use of the terminal: %v, want %v", o.Terminals, opened)
		}
	}, func() bool { return !short.culled.IsZero() })
	if got := short.culled.Sub(opened); got < 3*idle {
		t.Errorf("a terminal that counts for %v was culled after %v, want %v at least", 2*idle, got, 3*idle)
	}
	expectReason(t, long, v1alpha1.ReasonTerminalOpen)
	expectReason(t, tab, v1alpha1.ReasonActive)

	j.use(http.MethodDelete, "/api/terminals/1")
	closed := time.Now()
	watch(t, j.Target, notebooks, func(culling.Observation) {}, func() bool { return !long.culled.IsZero() && !tab.culled.IsZero() })
	for _, n := range []*notebook{long, tab} {
		if got := n.culled.Sub(closed); got < idle-2*time.Second { // the status has whole seconds, and probes have intervals
			t.Errorf("%s: culled %v after its last use, want about %v", n.settings.Activity, got, idle)
		}
	}
}

func expectReason(t *testing.T, n *notebook, want string) {
	t.Helper()
	if n.latest.Idle.Reason != want || !n.culled.IsZero() {
		t.Errorf("%s: Idle is %+v, culled %v, want %s", n.settings.Activity, n.latest.Idle, n.culled, want)
	}
}

// A terminal is used by what is typed, and by what its programs print while a browser shows
// it. Probes are no use of anything.
func TestATerminalIsUsedWhilePeopleOrProgramsWriteToIt(t *testing.T) {
	t.Parallel()
	j := startJupyter(t)
	before := ask(t, j.Target)
	time.Sleep(1200 * time.Millisecond)
	if now := ask(t, j.Target); !now.Server.Equal(before.Server) || now.Detail != "no kernels; no terminals" {
		t.Errorf("%+v, want %+v: a probe counts as use", now, before)
	}
	j.use(http.MethodPost, "/api/terminals")
	opened := ask(t, j.Target)
	if opened.Detail != "no kernels; 1 terminal" || !opened.Server.After(before.Server) {
		t.Errorf("%+v, want one terminal, and a later use than %v", opened, before.Server)
	}

	shell := j.connect("/terminals/websocket/1")
	typed := time.Now()
	if err := websocket.JSON.Send(shell, []string{"stdin", "sleep 3; echo it has ended\r"}); err != nil {
		t.Fatal(err)
	}
	j.awaitTerminal(func(o culling.Observation) bool { return !o.Terminals.Before(typed.Truncate(time.Second)) })
	j.awaitTerminal(func(o culling.Observation) bool { return o.Terminals.After(typed.Add(2 * time.Second)) })
}

// connect opens a WebSocket as the page of a terminal does. It reads what comes.
func (j *jupyter) connect(path string) *websocket.Conn {
	j.t.Helper()
	address := url.URL{Scheme: "ws", Host: j.Address, Path: path, RawQuery: url.Values{"token": {token}}.Encode()}
	connection, err := websocket.Dial(address.String(), "", "http://"+j.Address)
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { _ = connection.Close() })
	go func() { _, _ = io.Copy(io.Discard, connection) }()
	return connection
}

func (j *jupyter) awaitTerminal(holds func(culling.Observation) bool) {
	j.t.Helper()
	var o culling.Observation
	watch(j.t, j.Target, nil, func(now culling.Observation) { o = now }, func() bool { return holds(o) })
}
