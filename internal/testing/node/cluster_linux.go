package node

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Cluster is a control plane with real nodes.
type Cluster struct {
	*localcluster.Cluster

	sandbox sandbox
	nodes   []*Node
	proxy   *process
}

// Start starts a cluster without nodes, which stops with the test. Call it only once in a
// process: the network is not reset.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{sandbox: newSandbox(os.Getenv(sandboxEnv))}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			c.keepLogs(t)
		}
	})
	if err := c.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if err := makeNetwork(ctx); err != nil {
		return err
	}
	c.Cluster, err = localcluster.Start(ctx, localcluster.Config{
		Dir:           c.sandbox.path("cluster"),
		Components:    []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler},
		NodeAddress:   Address,
		UnsafeNoFsync: true,
	})
	if err != nil {
		return err
	}
	return c.startProxy()
}

// startProxy starts one kube-proxy for all nodes: they share a network namespace.
func (c *Cluster) startProxy() error {
	s := settings{Dir: c.sandbox.path("kube-proxy"), Network: network}
	config, err := s.configure("kube-proxy.yaml")
	if err != nil {
		return err
	}
	if err := c.WriteUserKubeconfig(filepath.Join(s.Dir, "kubeconfig"), "system:kube-proxy"); err != nil {
		return err
	}
	c.proxy, err = startComponent("kube-proxy", s.Dir, "--config="+config)
	return err
}

// stop stops all processes in reverse order. Containers end with the namespaces.
func (c *Cluster) stop() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.stop())
	}
	errs = append(errs, c.proxy.stop())
	if c.Cluster != nil {
		errs = append(errs, c.Cluster.Stop(context.Background()))
	}
	return errors.Join(errs...)
}

// LogsEnv names the directory to which logs are copied if a test fails.
const LogsEnv = "BONGSU_E2E_LOGS"

// keepLogs copies all logs to the directory that LogsEnv names.
func (c *Cluster) keepLogs(t testing.TB) {
	to := os.Getenv(LogsEnv)
	if to == "" {
		return
	}
	logs, err := filepath.Glob(c.sandbox.path("*", "logs"))
	if err != nil {
		t.Error(err)
	}
	for _, dir := range logs {
		to := filepath.Join(to, fmt.Sprintf("%s-%s", t.Name(), filepath.Base(filepath.Dir(dir))))
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(dir))); err != nil {
			t.Error(err)
		}
		t.Log("logs are in", to)
	}
}

// The pod network exists only in this network namespace. Each node has a /24 of it, with
// the node's own address first.
const (
	bridge  = "pods0"
	network = "10.244.0.0/16"
	// Address is the first node's. Pods reach servers in the test process at it.
	Address = "10.244.0.1"
)

func addressOf(number int) string { return fmt.Sprintf("10.244.%d.1", number) }
func podsOf(number int) string    { return fmt.Sprintf("10.244.%d.0/24", number) }

// makeNetwork creates a bridge for pods. The bridge already has the address of the first
// node, because the API server needs it before the node exists. It is the default route:
// kube-proxy forwards packets for Services, and others are lost.
func makeNetwork(ctx context.Context) error {
	for _, command := range []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"addr add " + Address + "/24 dev " + bridge,
		"link set " + bridge + " up",
		"route add default dev " + bridge,
	} {
		if err := ip(ctx, command); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}

func ip(ctx context.Context, command string) error {
	out, err := exec.CommandContext(ctx, "ip", strings.Fields(command)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", command, err, out)
	}
	return nil
}

//go:embed config
var configs embed.FS

// settings are the values for the templates in config/.
type settings struct {
	// Dir is the directory for all files of a program.
	Dir string
	// Network is the range of all pods, Pods that of the node Name.
	Network, Pods, Name, Address, Bridge string

	Cgroup, CNIPlugins, SandboxImage, CertificateAuthority string
}

// configure executes a template of config/, writes the result below Dir, and returns its
// path.
func (s settings) configure(name string) (string, error) {
	filled, err := template.ParseFS(configs, "config/"+name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := filled.Execute(&text, s); err != nil {
		return "", err
	}
	path := filepath.Join(s.Dir, "config", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text.Bytes(), 0o600)
}
