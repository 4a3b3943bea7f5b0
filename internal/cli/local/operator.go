package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// The operator's service account, as config installs it.
const (
	operatorNamespace = "bongsu-system"
	operatorAccount   = "bongsu"
)

// clusterName is what messages call the cluster.
const clusterName = "local"

// operatorGrace is how long the operator may take to end, so that the cluster has
// some time left to do the same.
const operatorGrace = 4 * time.Second

// operator is the one that runs in this process.
type operatorProcess struct {
	config  Config
	cluster *localcluster.Cluster
	ended   chan struct{} // nil unless it was started
}

func (o *operatorProcess) writeKubeconfig(ctx context.Context) error {
	return o.cluster.WriteServiceAccountKubeconfig(ctx, operatorNamespace, operatorAccount,
		operatorKubeconfig(o.cluster.Dir()))
}

// start returns when the operator is at work: no Event from then on escapes it.
// It calls fail when the operator ends by itself.
func (o *operatorProcess) start(ctx context.Context, fail context.CancelCauseFunc) error {
	log, closer, err := o.config.OpenLog(o.cluster.Dir())
	if err != nil {
		return fmt.Errorf("open the operator's log: %w", err)
	}
	rest, err := kube.Config(operatorKubeconfig(o.cluster.Dir()))
	if err != nil {
		return errors.Join(err, closer.Close())
	}
	opts := options.Default()
	opts.DataDir = filepath.Join(o.cluster.Dir(), "data")
	opts.ClusterName = clusterName
	bongsu, err := operator.New(ctx, operator.Config{
		REST: rest, Options: opts, Out: o.config.Out, Log: log, Metrics: prometheus.NewRegistry(),
		DialPod: refuseToDial,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("start the operator: %w", err), closer.Close())
	}
	o.ended = make(chan struct{})
	go func() {
		defer close(o.ended)
		err := errors.Join(bongsu.Start(ctx), closer.Close())
		if ctx.Err() == nil {
			fail(fmt.Errorf("the operator ended unasked: %w", err))
		}
	}()
	return bongsu.AtWork(ctx)
}

// refuseToDial keeps what is meant for a simulated pod, such as its token, from
// whatever has its address on the network.
func refuseToDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("a simulated pod has no network")
}

// wait returns when the operator has ended, or its time is over.
func (o *operatorProcess) wait(ctx context.Context) {
	if o.ended == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, operatorGrace)
	defer cancel()
	select {
	case <-o.ended:
	case <-ctx.Done():
	}
}
