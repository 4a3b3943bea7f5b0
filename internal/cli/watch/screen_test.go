package watch_test

import (
	"context"
	"io"
	"strings"
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

// screen shows a watch that runs.
type screen struct {
	t         testing.TB
	out, told cluster.Buffer
	stop      context.CancelFunc
	ended     chan struct{}
	err       error
}

// request is what somebody wants to watch.
type request struct {
	config    *rest.Config
	typeName  string
	namespace string
	selector  string
	// printer is for text, if nil.
	printer func(io.Writer) watch.Printer
	// onlyChanges leaves out what exists.
	onlyChanges bool
}

// open starts a watch and returns at once.
func open(t testing.TB, r request) *screen {
	t.Helper()
	s := &screen{t: t, ended: make(chan struct{})}
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
		Tell:   func(line string) { _, _ = io.WriteString(&s.told, line+"\n") },
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

// opened starts a watch and returns when it knows what exists.
func opened(t testing.TB, r request) *screen {
	t.Helper()
	s := open(t, r)
	s.tells("cache synced")
	return s
}

// close ends the watch, and returns how it ended.
func (s *screen) close() error {
	s.stop()
	<-s.ended
	return s.err
}

// fails returns the failure that ends the watch by itself.
func (s *screen) fails() error {
	s.t.Helper()
	NewWithT(s.t).Eventually(s.ended).Should(BeClosed())
	err := s.err
	s.err = nil
	return err
}

func (s *screen) tells(text string) {
	s.t.Helper()
	NewWithT(s.t).Eventually(s.told.String).Should(ContainSubstring(text))
}

func (s *screen) lines() []string {
	return strings.FieldsFunc(s.out.String(), func(r rune) bool { return r == '\n' })
}

// shows waits until these lines, and no others, have been printed.
func (s *screen) shows(lines ...string) {
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
