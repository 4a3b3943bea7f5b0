// Package local runs a whole cluster on this machine, with the operator in it. The cluster
// consists of child processes (package localcluster), and so does the operator. As in any
// other cluster, the operator has its own service account and the generated roles.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Config describes the cluster.
type Config struct {
	// Dir contains all files of the cluster and of the operator.
	Dir string
	// Assets is the directory of the control plane's binaries.
	Assets string
	// Nodes is the number of simulated nodes to create if they do not exist.
	Nodes int
	// Operator is the path of bongsu-operator. If it is empty, no operator runs. The
	// credentials for one are always in Dir.
	Operator string
	// LogArgs are the arguments of bongsu-operator for its log.
	LogArgs []string
	// OperatorLog receives the operator's log. Default: the file logs/operator.log in Dir.
	OperatorLog io.Writer
	// Out receives the line "ready: ...", and the messages of log receivers.
	Out io.Writer
	// Progress receives the steps of the start, one line at a time.
	Progress func(line string)
	// Main, if set, runs when everything is ready. Everything stops when it returns.
	// Default: wait for the end of the context.
	Main func(context.Context, *localcluster.Cluster) error
}

// stopTimeout limits the time to stop. Processes that still run are then killed.
const stopTimeout = 9 * time.Second

// Run starts everything, and returns when everything has stopped. The end of ctx and of Main
// are no errors. If a process of the cluster or the operator ends, Run returns its failure.
func Run(ctx context.Context, c Config) error {
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		Dir: c.Dir, Assets: c.Assets, Nodes: c.Nodes, Components: localcluster.Everything(), Progress: c.Progress,
	})
	if err != nil {
		return err
	}
	running, stopRunning := context.WithCancelCause(ctx)
	go func() {
		select {
		case err := <-cluster.Failed():
			stopRunning(err)
		case <-running.Done():
		}
	}()
	operator := &operatorProcess{config: c, cluster: cluster}
	err = runIn(running, stopRunning, c, cluster, operator)
	if failure := context.Cause(running); running.Err() != nil && !errors.Is(failure, context.Canceled) {
		err = failure // the cause of any other error
	}
	stopRunning(nil)
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
	if c.Operator != "" {
		c.Progress("starting the operator")
		if err := labelNamespace(ctx, cluster); err != nil {
			return err
		}
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

// labelNamespace shows `bongsu check` that the operator does not run in a pod.
func labelNamespace(ctx context.Context, cluster *localcluster.Cluster) error {
	c, err := client.New(cluster.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: options.Default().Namespace}}
	return c.Patch(ctx, ns, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, options.LocalLabel)))
}

// stop stops the operator first, because it still stores its position.
func stop(ctx context.Context, cluster *localcluster.Cluster, o *operatorProcess) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	o.stop(ctx)
	return cluster.Stop(ctx)
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
