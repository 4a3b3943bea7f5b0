package watch_test

import (
	"context"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
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
	lines := strings.FieldsFunc(s.out.String(), func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = brief(lines[i])
	}
	return lines
}

var textLine = regexp.MustCompile(`^\S+Z (ADDED|MODIFIED|DELETED) [^/ ]*/([^ :]+)(?: in ([^ :]+))?`)

// brief is a line of text with NAMESPACE/NAME, without the time and the type.
func brief(line string) string {
	return strings.Replace(textLine.ReplaceAllString(line, "$1 $3/$2"), " /", " ", 1)
}

// added is the line of a new pod.
func added(namespace, name string) string {
	return "ADDED " + namespace + "/" + name + ": phase Pending, ready 0/1"
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

// network is between a client and an API server. Tests can stop and start it. It needs no
// port, so that no other process can get it.
type network struct {
	mu          sync.Mutex
	stopped     bool
	connections []net.Conn
}

// throughNetwork returns a client configuration that uses a new network.
func throughNetwork(config *rest.Config) (*rest.Config, *network) {
	n := &network{}
	config = rest.CopyConfig(config)
	config.Dial = n.dial
	return config, n
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil, syscall.ECONNREFUSED
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		n.connections = append(n.connections, c)
	}
	return c, err
}

// start allows new connections.
func (n *network) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = false
}

// stop closes every connection and refuses new ones.
func (n *network) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	for _, c := range n.connections {
		_ = c.Close()
	}
	n.connections = nil
}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
