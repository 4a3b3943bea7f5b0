package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

func newManager() *cobra.Command {
	opts := options.Default()
	var logs logging
	var kubeconfig, file string
	c := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator",
		Long: `Run the operator against the cluster of --kubeconfig, of $KUBECONFIG (if that is not
set, of ~/.kube/config), or of the pod that this runs in: the first of these that
there is.

It runs until it is told to stop (SIGINT, SIGTERM); then it finishes the requests
in flight, writes down how far it came, and exits within ten seconds.`,
		Example: `  bongsu manager --kubeconfig ~/.kube/config --data-dir ./data --log-format text -v`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := readOptions(file, c.Flags(), &opts); err != nil {
				return err
			}
			log, err := logs.logger(c.ErrOrStderr())
			if err != nil {
				return err
			}
			cfg, err := kube.Config(kubeconfig)
			if err != nil {
				return err
			}
			return runManager(c.Context(), cfg, opts, log, c.OutOrStdout())
		},
	}
	flags := c.Flags()
	opts.AddFlags(flags)
	logs.addFlags(flags)
	addKubeconfig(flags, &kubeconfig)
	flags.StringVar(&file, "config", "", "YAML `file` whose keys are the names of these flags; the command line goes first")
	return c
}

func addKubeconfig(flags *pflag.FlagSet, kubeconfig *string) {
	flags.StringVar(kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster")
}

func readOptions(file string, flags *pflag.FlagSet, opts *options.Options) error {
	if file != "" {
		if err := options.ReadFile(file, flags); err != nil {
			return usage(fmt.Errorf("--config: %w", err))
		}
	}
	if err := opts.Validate(); err != nil {
		return usage(err)
	}
	return nil
}

func runManager(ctx context.Context, cfg *rest.Config, opts options.Options, log logr.Logger, out io.Writer) error {
	keepHeapSmall()
	operator, err := operator.New(ctx, operator.Config{REST: cfg, Options: opts, Out: out, Log: log})
	if err != nil {
		return err
	}
	return operator.Start(ctx)
}

// keepHeapSmall has garbage collected when the heap has grown by half, not when it
// has doubled: memory is what an operator is asked to save, and it has processor
// time to spare. $GOGC, as ever, goes first.
func keepHeapSmall() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
