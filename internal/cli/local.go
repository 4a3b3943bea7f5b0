package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
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
		Long: `Run a real control plane on this machine, with simulated nodes, and the operator in
it. Everything it has is in one directory: a second start there finds the same
cluster, and two directories are two clusters.

It is ready when it prints a line "ready: KUBECONFIG=<path>". It runs until it is
told to stop (SIGINT, SIGTERM); then nothing of it is left running.`,
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
	flags.StringVar(&o.dir, "dir", o.dir, "`directory` that holds the cluster")
	flags.IntVar(&o.nodes, "nodes", o.nodes, "`number` of simulated nodes to make sure of")
	flags.BoolVar(&o.noOperator, "no-operator", false, "leave the operator out; its credentials are in DIR/operator.kubeconfig")
	flags.BoolVar(&o.demo, "demo", false, "show alarms: nodes come and go, a Deployment scales, a pod crashes")
	flags.BoolVar(&o.exit, "exit", false, "with --demo: end when every kind of alarm was seen, with exit code 1 if one was not or a receiver fails")
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
		return errors.New("--demo needs the operator: leave --no-operator out")
	}
	_, err := o.logs.Logger(io.Discard) // before anything starts
	return err
}

func (o *localOptions) config(out, errOut io.Writer) (local.Config, error) {
	assets, err := localcluster.DefaultAssets()
	if err != nil {
		return local.Config{}, err
	}
	c := local.Config{
		Dir: o.dir, Assets: assets, Nodes: o.nodes, NoOperator: o.noOperator, Out: out,
		Progress: func(line string) { _, _ = fmt.Fprintln(errOut, line) },
		OpenLog:  func(dir string) (logr.Logger, io.Closer, error) { return o.openLog(dir, errOut) },
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

// openLog keeps the operator's log out of the terminal, which is for alarms.
func (o *localOptions) openLog(dir string, errOut io.Writer) (logr.Logger, io.Closer, error) {
	if o.logToStderr {
		log, err := o.logs.Logger(errOut)
		return log, io.NopCloser(nil), err
	}
	file, err := os.Create(filepath.Join(dir, "logs", "operator.log"))
	if err != nil {
		return logr.Logger{}, nil, err
	}
	log, err := o.logs.Logger(file)
	return log, file, err
}
