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
		Short: "Run a local cluster with the operator",
		Long: `Run a real control plane with simulated nodes and the operator on this machine. One
directory contains all data of the cluster. To use the same cluster again, start it with
the same directory. Different directories are different clusters.

The cluster is ready when the command prints the line "ready: KUBECONFIG=<path>". The
command runs until you stop it (SIGINT, SIGTERM). Then it stops all its processes.

The operator is the command bongsu-operator, beside bongsu or in $PATH.`,
		Example: `  bongsu local --demo
  bongsu local --dir /tmp/a --nodes 5 --no-operator`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return command.Usage(err)
			}
			config, err := o.config(c.OutOrStdout(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			return local.Run(c.Context(), config)
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.dir, "dir", o.dir, "`directory` of the cluster's data")
	flags.IntVar(&o.nodes, "nodes", o.nodes, "minimum `number` of simulated nodes")
	flags.BoolVar(&o.noOperator, "no-operator", false, "do not run the operator; its credentials are in DIR/operator.kubeconfig")
	flags.BoolVar(&o.demo, "demo", false, "demonstrate alarms: nodes join and fail, a Deployment scales, a pod crashes")
	flags.BoolVar(&o.exit, "exit", false, "with --demo: exit after the demo, with exit code 1 if an alarm is not delivered or a receiver fails")
	flags.BoolVar(&o.logToStderr, "log-to-stderr", false, "write the operator's log to standard error instead of DIR/logs/operator.log")
	o.logs.AddFlags(flags)
	return c
}

func (o *localOptions) validate() error {
	switch {
	case o.dir == "":
		return errors.New("--dir must not be empty")
	case o.nodes < 0:
		return fmt.Errorf("--nodes is %d: use 0 or more", o.nodes)
	case o.exit && !o.demo:
		return errors.New("--exit works only with --demo: add --demo")
	case o.demo && o.noOperator:
		return errors.New("--demo needs the operator: remove --no-operator")
	}
	return o.logs.Validate()
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
				demo.ShowOptions{Exit: o.exit, Kubectl: filepath.Join(assets, "kubectl"), Kubeconfig: cluster.Kubeconfig()})
		}
	}
	return c, nil
}

// slackEnv is the environment variable with the URL of a Slack webhook. If it is set, the
// demo also sends its alarms there.
const slackEnv = "SLACK_WEBHOOK_URL"
