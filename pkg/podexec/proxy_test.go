package podexec_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/pkg/podexec"
)

// proxy is a reverse proxy in front of the API server.
type proxy struct {
	net.Listener
	// refuses is the HTTP status for WebSocket requests. If it is 0, they are forwarded.
	refuses int

	mu       sync.Mutex
	conns    []net.Conn
	upgrades []string
}

// startProxy returns a proxy, and the configuration to connect through it.
func startProxy(t *testing.T, config *rest.Config, refuses int) (*proxy, *rest.Config) {
	t.Helper()
	g := NewWithT(t)
	tls, err := rest.TLSConfigFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	host, err := url.Parse(config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	forward := httputil.NewSingleHostReverseProxy(host)
	forward.Transport = &http.Transport{TLSClientConfig: tls}
	p := &proxy{refuses: refuses}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upgrade := r.Header.Get("Upgrade")
		p.mu.Lock()
		p.upgrades = append(p.upgrades, upgrade)
		p.mu.Unlock()
		if upgrade == "websocket" && p.refuses != 0 {
			http.Error(w, "no WebSocket here: "+r.URL.String(), p.refuses)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	p.Listener = server.Listener
	server.Listener = p
	server.Start()
	t.Cleanup(server.Close)
	return p, &rest.Config{Host: server.URL}
}

// Accept implements net.Listener.
func (p *proxy) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conn)
	return conn, err
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}

func TestSPDYIsUsedIfWebSocketIsRefused(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			g, e := NewWithT(t), newEnvironment(t)
			p, config := startProxy(t, e.RESTConfig(), status)
			got, err := runnerFor(t, config).Run(t.Context(), e.target, shell("echo here; exit 4"), long)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(podexec.Result{ExitCode: 4, Output: "here\n"}))
			g.Expect(p.upgrades).To(HaveExactElements("websocket", "SPDY/3.1", "websocket", "SPDY/3.1"))
		})
	}
}

func TestShellIsCheckedOnce(t *testing.T) {
	t.Parallel()
	g, e := NewWithT(t), newEnvironment(t)
	p, config := startProxy(t, e.RESTConfig(), 0)
	r := runnerFor(t, config)
	for range 3 {
		g.Expect(r.Run(t.Context(), e.target, []string{"true"}, long)).To(Equal(podexec.Result{}))
	}
	g.Expect(p.upgrades).To(HaveLen(1 + 3))
}

func TestBrokenConnectionDoesNotRepeatTheCommand(t *testing.T) {
	for name, refuses := range map[string]int{"WebSocket": 0, "SPDY": http.StatusForbidden} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, e := NewWithT(t), newEnvironment(t)
			p, config := startProxy(t, e.RESTConfig(), refuses)
			e.Runner = runnerFor(t, config)
			file := filepath.Join(t.TempDir(), "begun")
			start := time.Now()
			done := e.start(t.Context(), shell("echo x >>"+file+"; sleep 60"), 4*time.Second)
			g.Eventually(file).Should(BeAnExistingFile())
			p.cut()
			g.Eventually(done).Should(Receive(MatchError(podexec.ErrLost)))
			g.Expect(time.Since(start)).To(BeNumerically(">", 3500*time.Millisecond))
			g.Expect(p.upgrades).To(HaveLen(map[bool]int{true: 2, false: 4}[refuses == 0]))
		})
	}
}
