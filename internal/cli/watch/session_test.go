package watch_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/cli/watch"
	"github.com/bongsu-io/bongsu/internal/testing/cluster"
)

// session is a running watch and its output.
type session struct {
	t           testing.TB
	out, status cluster.Buffer
	stop        context.CancelFunc
	ended       chan struct{}
	err         error
}

// request selects what a session watches.
type request struct {
	config    *rest.Config
	typeName  string
	namespace string
	selector  string
	// printer defaults to a TextPrinter.
	printer     func(io.Writer) watch.Printer
	onlyChanges bool
}

// open starts a watch and returns at once.
func open(t testing.TB, r request) *session {
	t.Helper()
	s := &session{t: t, ended: make(chan struct{})}
	client, err := dynamic.NewForConfig(r.config)
	if err != nil {
		t.Fatal(err)
	}
	selector, err := labels.Parse(r.selector)
	if err != nil {
		t.Fatal(err)
	}
	if r.printer == nil {
		r.printer = func(out io.Writer) watch.Printer { return watch.TextPrinter{Out: out} }
	}
	config := watch.Config{
		Client: client, OnlyChanges: r.onlyChanges, Print: r.printer(&s.out), Clock: clock.RealClock{},
		Target: watch.Target{Type: find(t, r.config, r.typeName), Namespace: r.namespace, Selector: selector},
		Status: func(line string) { _, _ = io.WriteString(&s.status, line+"\n") },
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() {
		defer close(s.ended)
		s.err = watch.Run(ctx, config)
	}()
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("the watch failed: %v", err)
		}
	})
	return s
}

// opened starts a watch and returns when its cache is filled.
func opened(t testing.TB, r request) *session {
	t.Helper()
	s := open(t, r)
	s.reports("cache synced")
	return s
}

// close ends the watch and returns its error.
func (s *session) close() error {
	s.stop()
	<-s.ended
	return s.err
}

// fails waits until the watch ends by itself and returns its error.
func (s *session) fails() error {
	s.t.Helper()
	NewWithT(s.t).Eventually(s.ended).Should(BeClosed())
	err := s.err
	s.err = nil
	return err
}

// reports waits for a text among the reports of the watch's state.
func (s *session) reports(text string) {
	s.t.Helper()
	NewWithT(s.t).Eventually(s.status.String).Should(ContainSubstring(text))
}

func (s *session) lines() []string {
	return strings.FieldsFunc(s.out.String(), func(r rune) bool { return r == '\n' })
}

// shows waits until exactly these lines have been printed.
func (s *session) shows(lines ...string) {
	s.t.Helper()
	g := NewWithT(s.t)
	g.Eventually(s.lines).Should(HaveLen(len(lines)), "%s", &s.out)
	g.Expect(s.lines()).To(Equal(lines))
}

func types(t testing.TB, config *rest.Config) *watch.Types {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return watch.NewTypes(client)
}

func find(t testing.TB, config *rest.Config, name string) watch.ResourceType {
	t.Helper()
	found, err := types(t, config).Find(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// proxy is a TCP proxy between a client and an API server, which tests can stop and
// start.
type proxy struct {
	t            *testing.T
	near, server string

	mu       sync.Mutex
	listener net.Listener
	ends     []net.Conn
}

// throughProxy returns a client configuration that uses a new proxy.
func throughProxy(t *testing.T, config *rest.Config) (*rest.Config, *proxy) {
	t.Helper()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &proxy{t: t, near: "127.0.0.1:0", server: server.Host}
	c.start()
	t.Cleanup(c.stop)
	config = rest.CopyConfig(config)
	config.Host = "https://" + c.near
	return config, c
}

// start accepts connections.
func (c *proxy) start() {
	c.t.Helper()
	listener, err := net.Listen("tcp", c.near)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.near, c.listener = listener.Addr().String(), listener
	go c.serve(listener)
}

// stop closes every connection and refuses new ones.
func (c *proxy) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.listener.Close()
	for _, end := range c.ends {
		_ = end.Close()
	}
	c.ends = nil
}

func (c *proxy) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		c.mu.Lock()
		c.ends = append(c.ends, near, far)
		c.mu.Unlock()
		go pipe(near, far)
		go pipe(far, near)
	}
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
