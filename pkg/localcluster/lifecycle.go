package localcluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// startTimeout limits the start of a component. It usually takes a second or two.
	startTimeout = 90 * time.Second
	// startAttempts limits the attempts to start a component if other processes take its
	// ports.
	startAttempts = 4
)

// startComponent starts a component and waits until it is ready. If another process has
// taken its port, it tries another port.
func (c *Cluster) startComponent(ctx context.Context, component Component) error {
	c.config.Progress(fmt.Sprintf("starting %s", component))
	for attempt := 1; ; attempt++ {
		p, err := c.launch(ctx, component)
		if err == nil {
			return nil
		}
		if p == nil || p.running() || attempt == startAttempts || !c.ports.inUse(portsOf(component)...) {
			return err
		}
		if err := c.ports.ensure(c.dir, portsOf(component)...); err != nil {
			return err
		}
	}
}

// launch starts a component once. It returns the process even if the component does not
// become ready.
func (c *Cluster) launch(ctx context.Context, component Component) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if component == Kwok {
		if err := c.releaseNodes(ctx); err != nil {
			return nil, err
		}
	}
	p, err := startProcess(c.dir, component, c.command(component))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.processes[component] = p // for Stop
	c.mu.Unlock()
	if err := c.awaitReady(ctx, p); err != nil {
		return p, err
	}
	go c.reportFailure(p)
	return p, nil
}

// startAll starts components concurrently.
func (c *Cluster) startAll(ctx context.Context, components []Component) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, component := range components {
		group.Go(func() error { return c.startComponent(ctx, component) })
	}
	return group.Wait()
}

func portsOf(component Component) []Component {
	if component == Etcd {
		return []Component{Etcd, etcdPeer}
	}
	return []Component{component}
}

// reportFailure sends a failure if the process ends unexpectedly.
func (c *Cluster) reportFailure(p *process) {
	<-p.exited
	if p.stopped.Load() {
		return
	}
	select {
	case c.failed <- p.failure():
	default: // the buffer is full
	}
}

// Kill kills a component with SIGKILL. Failed does not report it. It returns an error if
// the component does not run.
func (c *Cluster) Kill(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[component]
	if p == nil {
		return fmt.Errorf("%s does not run", component)
	}
	p.kill()
	delete(c.processes, component)
	return nil
}

// Restart kills a component if it runs and starts it again with the same port and data.
// It returns when the component is ready.
func (c *Cluster) Restart(ctx context.Context, component Component) error {
	_ = c.Kill(component) // an error means that it does not run
	_, err := c.launch(ctx, component)
	return err
}

// healthPaths are the health endpoints of the components.
var healthPaths = map[Component]string{
	Etcd:              "/readyz",
	APIServer:         "/readyz",
	ControllerManager: "/healthz",
	Scheduler:         "/readyz",
	Kwok:              "/healthz",
}

const readyInterval = 25 * time.Millisecond

// awaitReady waits until the component is ready. If the component ends first, it returns
// its failure.
func (c *Cluster) awaitReady(ctx context.Context, p *process) error {
	client, err := c.probeClient(p.component)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	url := c.ports.url(p.component) + healthPaths[p.component]
	err = wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		if !p.running() {
			return false, p.failure()
		}
		return isReady(ctx, client, url), nil
	})
	if err != nil && p.running() {
		return fmt.Errorf("%s does not become ready: %w; last lines of its log:\n%s", p.component, err, LogTail(c.dir.log(p.component)))
	}
	return err
}

// probeClient returns a client for the health endpoint of a component.
func (c *Cluster) probeClient(component Component) (*http.Client, error) {
	authority, name := clusterCA, adminCert
	if component == Etcd {
		authority, name = etcdCA, etcdClientCert
	}
	cert, err := tls.LoadX509KeyPair(c.pki.cert(name), c.pki.key(name))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.pki.authorities[authority].cert)
	return &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert},
		}},
	}, nil
}

func isReady(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Compact removes the history from etcd. A watch from an earlier resourceVersion then
// fails with the status 410 Gone.
func (c *Cluster) Compact(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	return c.etcdctl(ctx, "compaction", "--physical", list.ResourceVersion)
}

// SnapshotSave writes the contents of the cluster to a file.
func (c *Cluster) SnapshotSave(ctx context.Context, file string) error {
	return c.etcdctl(ctx, "snapshot", "save", file)
}

// SnapshotRestore restores a snapshot, including its resourceVersions, and restarts all
// components. They do not support a store that goes back in time. The flags are further
// ones of "etcdutl snapshot restore", for example --bump-revision=1000000 together with
// --mark-compacted.
func (c *Cluster) SnapshotRestore(ctx context.Context, file string, flags ...string) error {
	running := slices.Concat(c.config.Components, []Component{APIServer, Etcd})
	for _, component := range running {
		_ = c.Kill(component) // an error means that it does not run
	}
	if err := os.RemoveAll(c.dir.etcdData()); err != nil {
		return err
	}
	restore := []string{
		"snapshot", "restore", file,
		"--data-dir=" + c.dir.etcdData(),
		"--initial-cluster=default=" + c.ports.url(etcdPeer),
		"--initial-advertise-peer-urls=" + c.ports.url(etcdPeer),
	}
	if err := c.run(ctx, "etcdutl", append(restore, flags...)...); err != nil {
		return err
	}
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.Restart(ctx, component); err != nil {
			return err
		}
	}
	return c.startAll(ctx, c.config.Components)
}

func (c *Cluster) etcdctl(ctx context.Context, args ...string) error {
	return c.run(ctx, "etcdctl", append([]string{
		"--endpoints=" + c.ports.url(Etcd),
		"--cacert=" + c.pki.cert(etcdCA),
		"--cert=" + c.pki.cert(etcdClientCert),
		"--key=" + c.pki.key(etcdClientCert),
	}, args...)...)
}

// run runs a tool and waits for its end.
func (c *Cluster) run(ctx context.Context, tool string, args ...string) error {
	cmd := exec.CommandContext(ctx, c.binary(tool), args...)
	cmd.Dir = string(c.dir)
	cmd.Env = environment(c.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", tool, err, out)
	}
	return nil
}
