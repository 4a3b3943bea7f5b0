// Package cluster starts a real API server for tests, with CRDs, roles and policies
// installed. Tests can use it as an administrator, as a user with few permissions, or as
// the operator's service account.
//
// By default only etcd and the API server run. Nothing schedules pods then, and
// namespaces are never completely deleted.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
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

// Cluster is a cluster with the project's CRDs, roles and policies.
type Cluster struct {
	*localcluster.Cluster
	// Client has all permissions.
	Client client.WithWatch

	saveDir string
	pods    pods
}

// Option changes the configuration of a cluster.
type Option func(*localcluster.Config)

// Whole also starts the controller manager, the scheduler and simulated nodes, so that
// Deployments run.
func Whole(nodes int) Option {
	return func(c *localcluster.Config) { c.Components, c.Nodes = localcluster.Everything(), nodes }
}

// In stores the cluster in this directory.
func In(dir string) Option { return func(c *localcluster.Config) { c.Dir = dir } }

// Start starts a cluster that is stopped when the test ends.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return startForTest(t, start, opts)
}

// StartBare is Start without CRDs, roles and policies.
func StartBare(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return startForTest(t, startBare, opts)
}

func startForTest(t testing.TB, start func(context.Context, ...Option) (*Cluster, error), opts []Option) *Cluster {
	t.Helper()
	Needed(t)
	c, err := start(t.Context(), append([]Option{In(t.TempDir())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.failure(), c.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return c
}

// failure returns the error of a component that ended unexpectedly.
func (c *Cluster) failure() error {
	select {
	case err := <-c.Failed():
		return err
	default:
		return nil
	}
}

// Needed marks a test that needs a control plane. make test-unit skips it, and make test may
// run it again.
func Needed(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	t.Attr("rerun", "allowed")
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
	config := localcluster.Config{UnsafeNoFsync: true, GCPercent: gcPercent}
	for _, opt := range opts {
		opt(&config)
	}
	local, err := startAlone(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Cluster: local, saveDir: audit.SaveDir()}
	if c.Client, err = ClientFor(c.RESTConfig()); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// startAlone starts a cluster while no other test starts one. An API server that starts keeps a
// core busy for seconds. On a small machine, several at once do not become ready in time.
func startAlone(ctx context.Context, config localcluster.Config) (*localcluster.Cluster, error) {
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(assets, "start")
	if err != nil {
		return nil, err
	}
	defer unlock()
	return localcluster.Start(ctx, config)
}

// Stop stops the cluster and saves the requests of the operator.
func (c *Cluster) Stop(ctx context.Context) error {
	return errors.Join(c.Cluster.Stop(ctx), audit.Save(c.saveDir, c.AuditLog()))
}

// ClientFor returns a client for Kubernetes' kinds and the project's kinds.
func ClientFor(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// silence discards the logs of libraries. It does so only once, because the operator of an
// earlier cluster may still log.
var silence = sync.OnceFunc(func() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
})

// Defaults of Eventually. The machine may be busy. Most polls are a request, which costs CPU time
// of the test, the API server, and etcd.
const (
	eventually = 3 * time.Minute
	polling    = 250 * time.Millisecond
)

// gcPercent makes the garbage collection of the control plane and of the test cheaper.
const gcPercent = 400

// shared contains the cluster and the operator that the tests of a package share.
var shared struct {
	dir     string
	opts    []Option
	cluster func() (*Cluster, error)
	// operator starts with the first test that needs it.
	operator func() (*Operator, error)
	stops    []func() error
	// borrowed contains the cluster of Borrow while no test has it, or nil if it has not started.
	borrowed chan *Cluster
}

// Main runs the tests of a package. They may use Shared. Call it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
func Main(m *testing.M, opts ...Option) (code int) {
	gomega.SetDefaultEventuallyTimeout(eventually)
	gomega.SetDefaultEventuallyPollingInterval(polling)
	debug.SetGCPercent(gcPercent)
	dir, err := os.MkdirTemp("", "bongsu-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared.dir, shared.opts = dir, append([]Option{In(filepath.Join(dir, "cluster"))}, opts...)
	shared.cluster, shared.operator = sync.OnceValues(startCluster), sync.OnceValues(startOperator)
	shared.borrowed = make(chan *Cluster, 1)
	shared.borrowed <- nil
	shared.stops = append(shared.stops, stopBorrowed)
	defer func() {
		for _, stop := range slices.Backward(shared.stops) {
			if err := stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}()
	return m.Run()
}

func startCluster() (*Cluster, error) {
	c, err := start(context.Background(), shared.opts...)
	if err == nil {
		shared.stops = append(shared.stops, func() error { return errors.Join(c.failure(), c.Stop(context.Background())) })
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

// Shared returns the cluster that all tests of the package share. It starts with the first
// of them. Each test works in its own Namespace.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	Needed(t)
	if shared.cluster == nil {
		t.Fatal("the package's TestMain does not call cluster.Main")
	}
	c, err := shared.cluster()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// SharedOperator returns the shared cluster and the operator that runs in it with default
// options.
func SharedOperator(t testing.TB) (*Cluster, *Operator) {
	t.Helper()
	c := Shared(t)
	o, err := shared.operator()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.logIfFailed(t) })
	return c, o
}
