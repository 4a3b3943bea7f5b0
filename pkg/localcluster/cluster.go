package localcluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Cluster is a running control plane.
type Cluster struct {
	config Config
	dir    layout
	lock   *os.File
	ports  *ports
	pki    *pki

	failed chan error

	mu        sync.Mutex
	processes map[Component]*process
}

//go:embed audit-policy.yaml
var auditPolicy []byte

// clusterExec has KWOK run commands for the containers of all pods.
//
//go:embed cluster-exec.yaml
var clusterExec []byte

// Start starts a cluster, or finds again the one that the directory holds. It
// returns when the API server, and whatever else was asked for, is ready. If it
// fails, or the context ends before that, nothing is left running.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	dir := layout(config.Dir)
	if err := dir.make(); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		config: config, dir: dir, lock: lock, ports: loadPorts(dir),
		// One report for every component and then some; a report that nobody
		// takes must not keep its reporter waiting forever.
		failed:    make(chan error, 32),
		processes: map[Component]*process{},
	}
	if err := c.start(ctx); err != nil {
		_ = c.Stop(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("start the local cluster in %s: %w", dir, err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := endStale(ctx, c.dir); err != nil {
		return err
	}
	if err := copyTemplate(c.dir, layout(c.config.Template)); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.bring(ctx, component); err != nil {
			return err
		}
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if err := c.bringAll(ctx, c.config.Components); err != nil {
		return err
	}
	return c.populate(ctx)
}

// prepare writes the files that the components read.
func (c *Cluster) prepare() error {
	var err error
	if c.pki, err = ensurePKI(c.dir, issuer{clock: c.config.Clock}); err != nil {
		return err
	}
	if err := os.WriteFile(c.dir.auditPolicy(), auditPolicy, 0o600); err != nil {
		return err
	}
	stages, err := renderStages()
	if err != nil {
		return err
	}
	if c.config.ExecPath != "" {
		stages = append(stages, clusterExec...)
	}
	if err := os.WriteFile(c.dir.stages(), stages, 0o600); err != nil {
		return err
	}
	return c.ports.ensure(c.dir, append([]Component{Etcd, etcdPeer, APIServer}, c.config.Components...)...)
}

// populate creates the objects that a cluster is expected to have.
func (c *Cluster) populate(ctx context.Context) error {
	if slices.Contains(c.config.Components, Kwok) {
		if err := c.ensureStorageClass(ctx); err != nil {
			return err
		}
	}
	names := make([]string, c.config.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
	}
	return c.AddNode(ctx, names...)
}

// The time that components have to end by themselves. Together they stay well
// under the ten seconds that stopping may take.
const (
	clientGrace    = 2 * time.Second
	apiServerGrace = 4 * time.Second
	etcdGrace      = 2 * time.Second
)

// Stop ends every process of the cluster and returns when all are gone, within
// ten seconds. When the context is over it makes short work of them. A second
// call does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	var clients sync.WaitGroup
	for component, p := range c.processes {
		if component != Etcd && component != APIServer {
			clients.Go(func() { p.stop(ctx, clientGrace) })
		}
	}
	clients.Wait()
	if p := c.processes[APIServer]; p != nil {
		p.stop(ctx, apiServerGrace)
	}
	if p := c.processes[Etcd]; p != nil {
		p.stop(ctx, etcdGrace)
	}
	clear(c.processes)
	if err := c.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Failed reports each component that ends unasked, as a *ChildError. Nobody
// starts it again. The channel stays open, and silent once the cluster stops.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Dir returns the directory that holds the cluster.
func (c *Cluster) Dir() string { return string(c.dir) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.dir.kubeconfig() }

// AuditLog returns the path of the API server's audit log: a JSON object a line,
// without bodies.
func (c *Cluster) AuditLog() string { return c.dir.auditLog() }

func (c *Cluster) binary(name string) string {
	return filepath.Join(c.config.Assets, name)
}

// client returns a client with the administrator's rights.
func (c *Cluster) client() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(c.RESTConfig())
}
