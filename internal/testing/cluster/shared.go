package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// How long tests wait: the machine may be busy.
const (
	eventually = time.Minute
	polling    = 25 * time.Millisecond
)

// shared is the cluster of a package's tests, and the operator in it.
var shared struct {
	dir     string
	opts    []Option
	cluster func() (*Cluster, error)
	// operator is started by the first test that wants it.
	operator func() (*Operator, error)
	stops    []func() error
}

// Main runs a package's tests, which may use Shared. It is for TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
func Main(m *testing.M, opts ...Option) int {
	gomega.SetDefaultEventuallyTimeout(eventually)
	gomega.SetDefaultEventuallyPollingInterval(polling)
	dir, err := os.MkdirTemp("", "bongsu-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared.dir, shared.opts = dir, append([]Option{In(filepath.Join(dir, "cluster"))}, opts...)
	shared.cluster, shared.operator = sync.OnceValues(startCluster), sync.OnceValues(startOperator)
	defer func() {
		for _, stop := range slices.Backward(shared.stops) {
			_ = stop()
		}
	}()
	return m.Run()
}

func startCluster() (*Cluster, error) {
	c, err := start(context.Background(), shared.opts...)
	if err == nil {
		shared.stops = append(shared.stops, func() error { return c.Stop(context.Background()) })
	}
	return c, err
}

func startOperator() (*Operator, error) {
	c, err := shared.cluster()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(shared.dir, "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	o, err := c.startOperator(dir, account, nil)
	if err == nil {
		shared.stops = append(shared.stops, o.Stop)
	}
	return o, err
}

// Shared returns the cluster that all tests of the package share: it starts with
// the first of them. Each test works in a Namespace of its own.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	skipIfShort(t)
	if shared.cluster == nil {
		t.Fatal("the package's TestMain does not call cluster.Main")
	}
	c, err := shared.cluster()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// SharedOperator returns the operator that runs in the shared cluster, with no
// option set.
func SharedOperator(t testing.TB) (*Cluster, *Operator) {
	t.Helper()
	c := Shared(t)
	o, err := shared.operator()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.tell(t) })
	return c, o
}
