package cluster

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// account is the operator's service account.
const account = "bongsu"

// OperatorConfig returns the configuration of the operator's own service account:
// it may do what the generated roles say.
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

// Operator is one that runs in the test's process.
type Operator struct {
	// Out is what log receivers have written, Log the operator's own log.
	Out, Log *Buffer
	// Metrics are its own.
	Metrics *prometheus.Registry

	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// StartOperator starts the operator and returns when it is at work. It has an
// empty data directory, and no option set, unless change says otherwise.
func (c *Cluster) StartOperator(t testing.TB, change ...func(*options.Options)) *Operator {
	t.Helper()
	return c.StartOperatorThrough(t, nil, change...)
}

// StartOperatorThrough is StartOperator for one whose requests go through what wrap
// makes of their transport.
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
			t.Errorf("the operator failed: %v", err)
		}
		o.tell(t)
	})
	return o
}

func (c *Cluster) startOperator(dir, account string, wrap transport.WrapperFunc, change ...func(*options.Options)) (*Operator, error) {
	opts := options.Default()
	opts.DataDir, opts.ClusterName = dir, "test"
	for _, f := range change {
		f(&opts)
	}
	// Not a test's context: that is over before its cleanups run.
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

// tell shows the operator's log if the test has failed.
func (o *Operator) tell(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("the operator's log:\n%s", o.Log)
	}
}

// Stop ends the operator and returns how it ended. A second call does nothing more.
func (o *Operator) Stop() error {
	o.stop()
	<-o.ended
	return o.err
}

// Buffer is a bytes.Buffer that one goroutine may write and another read.
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

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
