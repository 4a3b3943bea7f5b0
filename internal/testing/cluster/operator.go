package cluster

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/operator/permissions"
)

// account is the operator's service account.
const account = "bongsu"

// OperatorConfig returns the configuration of the operator's service account, which has
// the generated roles.
func (c *Cluster) OperatorConfig(t testing.TB) *rest.Config {
	t.Helper()
	config, err := c.configAs(t.Context(), account, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (c *Cluster) configAs(ctx context.Context, account, dir string) (*rest.Config, error) {
	path := filepath.Join(dir, "operator.kubeconfig")
	if err := c.WriteServiceAccountKubeconfig(ctx, "bongsu-system", account, path); err != nil {
		return nil, err
	}
	return kube.Config(path)
}

// Operator is an operator that runs in the process of the test.
type Operator struct {
	// Out contains the output of log receivers, Log the log of the operator.
	Out, Log *Buffer
	// Metrics is the registry of this operator.
	Metrics *prometheus.Registry

	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// StartOperator starts the operator and returns when it reads Events. It has an empty data
// directory, all features, and default options, which change can modify.
func (c *Cluster) StartOperator(t testing.TB, change ...func(*options.Options)) *Operator {
	t.Helper()
	return c.StartOperatorThrough(t, nil, change...)
}

// StartOperatorThrough is StartOperator with a wrapper around the transport of the
// operator's requests.
func (c *Cluster) StartOperatorThrough(t testing.TB, wrap transport.WrapperFunc, change ...func(*options.Options)) *Operator {
	t.Helper()
	return c.startOperatorAs(t, account, wrap, change...)
}

func (c *Cluster) startOperatorAs(t testing.TB, account string, wrap transport.WrapperFunc, change ...func(*options.Options)) *Operator {
	t.Helper()
	o, err := c.startOperator(t.TempDir(), account, wrap, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Stop(); err != nil {
			t.Errorf("the operator stopped with an error: %v", err)
		}
		o.logIfFailed(t)
	})
	return o
}

func (c *Cluster) startOperator(dir, account string, wrap transport.WrapperFunc, change ...func(*options.Options)) (*Operator, error) {
	opts := options.Default()
	opts.DataDir, opts.ClusterName, opts.Controllers = dir, "test", feature.Names(feature.All())
	for _, f := range change {
		f(&opts)
	}
	// The test's context is canceled before its cleanups run.
	ctx, cancel := context.WithCancel(context.Background())
	config, err := c.configAs(ctx, account, dir)
	if err != nil {
		cancel()
		return nil, err
	}
	config.Wrap(wrap)
	o := &Operator{
		Out: &Buffer{}, Log: &Buffer{}, Metrics: prometheus.NewRegistry(),
		stop: cancel, ended: make(chan struct{}),
	}
	bongsu, err := operator.New(ctx, operator.Config{
		REST: config, Options: opts, Out: o.Out, Metrics: o.Metrics, DialPod: c.dialPod,
		LeaseDuration: time.Minute, RenewDeadline: 50 * time.Second,
		Log: zap.New(zap.UseDevMode(true), zap.WriteTo(o.Log)),
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(o.ended)
		defer cancel()
		o.err = bongsu.Start(ctx)
	}()
	if err := bongsu.AtWork(ctx); err != nil {
		return nil, errors.Join(err, o.Stop())
	}
	return o, nil
}

// logIfFailed prints the operator's log if the test has failed.
func (o *Operator) logIfFailed(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("the operator's log:\n%s", o.Log)
	}
}

// Stop stops the operator and returns its error. It can be called again.
func (o *Operator) Stop() error {
	o.stop()
	<-o.ended
	return o.err
}

// Buffer is a bytes.Buffer that is safe for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// StartOperatorFor starts an operator with only the chosen features. It runs as a new user
// with only their roles, and returns the name of this user.
func (c *Cluster) StartOperatorFor(t testing.TB, chosen []feature.Feature, change ...func(*options.Options)) (o *Operator, user string) {
	t.Helper()
	account := "only-" + strings.Join(feature.Names(chosen), "-")
	c.grantRoles(t, account, chosen)
	user = "system:serviceaccount:bongsu-system:" + account
	c.awaitNeeded(t, user, chosen)
	choose := func(o *options.Options) { o.Controllers = feature.Names(chosen) }
	return c.startOperatorAs(t, account, nil, append(change, choose)...), user
}

// grantRoles binds the roles of the features to a new service account, as the manifests
// bind them to the operator's.
func (c *Cluster) grantRoles(t testing.TB, account string, chosen []feature.Feature) {
	t.Helper()
	objects, err := config.RBAC(chosen)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "bongsu-system", Name: account}}); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") { // or ClusterRoleBinding
			continue
		}
		o.SetName(account + "." + o.GetName())
		subject := map[string]any{"kind": "ServiceAccount", "namespace": "bongsu-system", "name": account}
		if err := unstructured.SetNestedSlice(o.Object, []any{subject}, "subjects"); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitNeeded waits until the API server allows a user everything that the features need.
func (c *Cluster) awaitNeeded(t testing.TB, user string, chosen []feature.Feature) {
	t.Helper()
	needed, err := permissions.Needed("bongsu-system", chosen)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range needed {
		err := c.awaitAllowed(t.Context(), user, &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		})
		if err != nil {
			t.Fatalf("%s is still not allowed to %s %s: %v", user, r.Verb, r.Resource, err)
		}
	}
}
