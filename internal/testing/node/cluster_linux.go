package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Cluster is a control plane, to which real nodes are added.
type Cluster struct {
	*localcluster.Cluster

	house house
	nodes []*Node
	proxy *process
}

// Start starts a cluster without nodes, for the time of a test. It can be done once in
// a process: the network is left as it is.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{house: houseOf(os.Getenv(houseEnv))}
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
		Dir:           c.house.path("cluster"),
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
	s := settings{Dir: c.house.path("kube-proxy"), Network: network}
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

// stop ends what runs, last come first. Containers end with the namespaces.
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

// LogsEnv names a directory that logs are kept in when a test fails.
const LogsEnv = "BONGSU_E2E_LOGS"

// keepLogs copies what all have said out of the directory that goes with the tests.
func (c *Cluster) keepLogs(t testing.TB) {
	to := os.Getenv(LogsEnv)
	if to == "" {
		return
	}
	logs, err := filepath.Glob(c.house.path("*", "logs"))
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
