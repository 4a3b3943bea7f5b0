package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/cli/demo"
	"github.com/bongsu-io/bongsu/internal/cli/local"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// localOptions are the flags of `bongsu local`.
type localOptions struct {
	dir         string
	nodes       int
	noOperator  bool
	demo, exit  bool
	logToStderr bool
	logs        command.Logging
}

func newLocal() *cobra.Command {
	o := localOptions{dir: ".bongsu", nodes: 1}
	c := &cobra.Command{
		Use:   "local",
		Short: "Run a whole cluster on this machine, with the operator in it",
		Long: `Run a real control plane on this machine, with simulated nodes and the operator. One
directory contains everything: a second start there continues the same cluster, and
another directory is another cluster.

The cluster is ready when the command prints a line "ready: KUBECONFIG=<path>". It runs
until the command receives SIGINT or SIGTERM, which stops all of its processes.

The operator is bongsu-operator, which must be beside bongsu or in $PATH.`,
		Example: `  bongsu local --demo
  bongsu local --dir /tmp/a --nodes 5 --no-operator`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usage(err)
			}
			config, err := o.config(c.OutOrStdout(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			return local.Run(c.Context(), config)
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.dir, "dir", o.dir, "`directory` that contains the cluster")
	flags.IntVar(&o.nodes, "nodes", o.nodes, "`number` of simulated nodes to create if they do not exist")
	flags.BoolVar(&o.noOperator, "no-operator", false, "do not run the operator; its credentials are in DIR/operator.kubeconfig")
	flags.BoolVar(&o.demo, "demo", false, "show alarms: nodes are added and removed, a Deployment scales, a pod crashes")
	flags.BoolVar(&o.exit, "exit", false, "with --demo: end after every kind of alarm; exit with code 1 if one is missing or a receiver fails")
	flags.BoolVar(&o.logToStderr, "log-to-stderr", false, "write the operator's log to standard error instead of DIR/logs/operator.log")
	o.logs.AddFlags(flags)
	return c
}

func (o *localOptions) validate() error {
	switch {
	case o.dir == "":
		return errors.New("--dir must not be empty")
	case o.nodes < 0:
		return fmt.Errorf("--nodes is %d; it must not be negative", o.nodes)
	case o.exit && !o.demo:
		return errors.New("--exit needs --demo")
	case o.demo && o.noOperator:
		return errors.New("--demo needs the operator: remove --no-operator")
	}
	_, err := o.logs.Logger(io.Discard) // the operator logs, this process does not
	return err
}

func (o *localOptions) config(out, errOut io.Writer) (local.Config, error) {
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		return local.Config{}, err
	}
	c := local.Config{
		Dir: o.dir, Assets: assets, Nodes: o.nodes, LogArgs: o.logs.Args(), Out: out,
		Progress: func(line string) { _, _ = fmt.Fprintln(errOut, line) },
	}
	if o.logToStderr {
		c.OperatorLog = errOut
	}
	if !o.noOperator {
		if c.Operator, err = local.FindOperator(); err != nil {
			return local.Config{}, err
		}
	}
	if o.demo {
		c.Main = func(ctx context.Context, cluster *localcluster.Cluster) error {
			return demo.Show(ctx, cluster,
				demo.Config{Out: out, SlackWebhookURL: os.Getenv(slackEnv)},
				demo.Audience{Leaves: o.exit, Kubectl: filepath.Join(assets, "kubectl"), Kubeconfig: cluster.Kubeconfig()})
		}
	}
	return c, nil
}

// slackEnv names the environment variable with the URL of an incoming webhook,
// to which the demo sends as well.
const slackEnv = "SLACK_WEBHOOK_URL"
