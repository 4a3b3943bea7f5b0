// Package local runs a whole cluster on this machine with the operator in it, for
// a person to look at. The operator has its own service account and its generated
// role, as anywhere else.
//
// The cluster is the business of localcluster, what the operator does that of
// app; this package only lets the one run in the other and ends both.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Config says what to run.
type Config struct {
	// Dir holds everything: nothing is written outside of it.
	Dir string
	// Assets is the directory of the control plane's binaries.
	Assets string
	// Nodes is how many simulated nodes to make sure of.
	Nodes int
	// NoOperator leaves the operator to somebody else, who finds its kubeconfig in
	// Dir.
	NoOperator bool
	// Out gets the line that tells that all is ready, and what log receivers write.
	Out io.Writer
	// Progress is told what is going on before that, a line at a time.
	Progress func(line string)
	// OpenLog makes the operator's log, once Dir is there and ours.
	OpenLog func(dir string) (logr.Logger, io.Closer, error)
	// Main, if set, is called when all is ready; all ends when it returns. Default:
	// wait for the context to end.
	Main func(context.Context, *localcluster.Cluster) error
}

// stopWithin is how long stopping may take; what has not ended by then is killed.
const stopWithin = 9 * time.Second

// Run starts everything and returns when all has ended again: because ctx or Main
// did, which is no error, or because a part failed.
func Run(ctx context.Context, c Config) error {
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		Dir: c.Dir, Assets: c.Assets, Nodes: c.Nodes, Components: localcluster.Everything(), Progress: c.Progress,
	})
	if err != nil {
		return err
	}
	part, fail := context.WithCancelCause(ctx)
	go func() {
		select {
		case err := <-cluster.Failed():
			fail(err)
		case <-part.Done():
		}
	}()
	operator := &operatorProcess{config: c, cluster: cluster}
	err = runIn(part, fail, c, cluster, operator)
	if failure := context.Cause(part); part.Err() != nil && !errors.Is(failure, context.Canceled) {
		err = failure // whatever else went wrong went wrong because of it
	}
	fail(nil)
	return errors.Join(ignoreCanceled(err), stop(ctx, cluster, operator))
}

func runIn(ctx context.Context, fail context.CancelCauseFunc, c Config, cluster *localcluster.Cluster, o *operatorProcess) error {
	c.Progress("installing kinds, roles and admission policies")
	if err := install.Install(ctx, cluster.RESTConfig()); err != nil {
		return err
	}
	if err := o.writeKubeconfig(ctx); err != nil {
		return err
	}
	if !c.NoOperator {
		c.Progress("starting the operator")
		if err := o.start(ctx, fail); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(c.Out, "ready: KUBECONFIG=%s\n", cluster.Kubeconfig()); err != nil {
		return err
	}
	if c.Main != nil {
		return c.Main(ctx, cluster)
	}
	<-ctx.Done()
	return nil
}

// stop ends the operator, which has something to write down, before the cluster.
func stop(ctx context.Context, cluster *localcluster.Cluster, o *operatorProcess) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	o.wait(ctx)
	return cluster.Stop(ctx)
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func operatorKubeconfig(dir string) string { return filepath.Join(dir, "operator.kubeconfig") }
