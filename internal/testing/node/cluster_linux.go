package node

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/bongsu-io/bongsu/internal/localcluster"
)

// Name is the node's.
const Name = "worker"

// The network of the pods, which only this network namespace knows.
const (
	bridge     = "pods0"
	podNetwork = "10.244.0.0/16"
	// Address is the node's, and the gateway of its pods: they reach at it what listens
	// in the tests' process.
	Address = "10.244.0.1"
)

// Cluster is a control plane with one node.
type Cluster struct {
	*localcluster.Cluster

	house     house
	processes []*process // in the order of their start
}

// Start starts a cluster for the time of a test, and returns when its node is about to
// join. It can be done once: namespaces are left as they are.
func Start(t testing.TB, images ...string) *Cluster {
	t.Helper()
	c := &Cluster{house: houseOf(os.Getenv(houseEnv))}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.start(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cluster) start(ctx context.Context, images []string) (err error) {
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
	if err := c.startContainerd(ctx); err != nil {
		return err
	}
	for _, archive := range images {
		if err := c.Import(ctx, archive); err != nil {
			return err
		}
	}
	return errors.Join(c.startKubelet(), c.startProxy())
}

// stop ends what runs, last come first. Containers are ended with the namespaces.
func (c *Cluster) stop() error {
	var errs []error
	for i := len(c.processes) - 1; i >= 0; i-- {
		errs = append(errs, c.processes[i].stop())
	}
	if c.Cluster != nil {
		errs = append(errs, c.Cluster.Stop(context.Background()))
	}
	return errors.Join(errs...)
}
