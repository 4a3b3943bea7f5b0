// Package cluster gives tests a real API server with everything of ours installed
// in it, and callers of every degree of power: an administrator, users with few
// rights, the operator as its own service account.
//
// Only etcd and the API server run unless a test asks for more: nothing then
// schedules pods or completes the removal of namespaces.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/testing/audit"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Cluster is a cluster with our kinds, roles and policies in it.
type Cluster struct {
	*localcluster.Cluster
	// Client has every right.
	Client client.WithWatch

	pods pods
}

// Option changes what is started.
type Option func(*localcluster.Config)

// Whole also starts what makes Deployments run, on so many simulated nodes.
func Whole(nodes int) Option {
	return func(c *localcluster.Config) { c.Components, c.Nodes = localcluster.Everything(), nodes }
}

// In keeps the cluster in a directory of the test's own.
func In(dir string) Option { return func(c *localcluster.Config) { c.Dir = dir } }

// Start starts a cluster for the length of a test.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return lasting(t, start, opts)
}

// StartBare is Start for a cluster with nothing of ours in it.
func StartBare(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return lasting(t, startBare, opts)
}

func lasting(t testing.TB, start func(context.Context, ...Option) (*Cluster, error), opts []Option) *Cluster {
	t.Helper()
	skipIfShort(t)
	c, err := start(t.Context(), append([]Option{In(t.TempDir())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// skipIfShort leaves out tests that need a control plane: see make test-unit.
func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
}

func start(ctx context.Context, opts ...Option) (*Cluster, error) {
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		return nil, err
	}
	dir, err := template(ctx, assets)
	if err != nil {
		return nil, fmt.Errorf("prepare a cluster: %w", err)
	}
	return startBare(ctx, append([]Option{func(c *localcluster.Config) { c.Template = dir }}, opts...)...)
}

func startBare(ctx context.Context, opts ...Option) (*Cluster, error) {
	silence()
	config := localcluster.Config{UnsafeNoFsync: true}
	for _, opt := range opts {
		opt(&config)
	}
	local, err := localcluster.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Cluster: local}
	if c.Client, err = ClientFor(c.RESTConfig()); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Stop ends the cluster, and keeps what the operator has asked of it.
func (c *Cluster) Stop(ctx context.Context) error {
	return errors.Join(c.Cluster.Stop(ctx), audit.Remember(c.AuditLog()))
}

// ClientFor returns a client that knows our kinds and Kubernetes' own.
func ClientFor(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// silence keeps the libraries' logs out of the tests' output. It does so once: what a
// former cluster's operator runs may still log.
var silence = sync.OnceFunc(func() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
})

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
