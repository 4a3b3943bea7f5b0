package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/cli/check"
	"github.com/bongsu-io/bongsu/internal/cli/preflight"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// checkOptions are the flags of `bongsu check`.
type checkOptions struct {
	cluster   kube.Target
	namespace string
	output    string
}

func newCheck() *cobra.Command {
	o := checkOptions{output: outputText, namespace: options.Default().Namespace}
	c := &cobra.Command{
		Use:   "check",
		Short: "Check whether the cluster can run Bongsu, and whether an installation is healthy",
		Long: `Check whether the cluster can run Bongsu: its version and APIs, its clock, and your
permissions to install.

If Bongsu is installed, check also the installation. Its kinds and admission policies
must match this version, and the operator must have its permissions, and no others. A
replica must lead, and receivers must be Ready.

Each line is ok, warn or fail, with a sentence that says what to do. The command uses
your own permissions, changes nothing and reads no Secret. It prints a warning for
objects that you may not read.

The exit code is 1 if a check fails; warnings do not count.`,
		Example: `  bongsu check
  bongsu check -o json | jq -r '.[] | select(.level != "ok") | .message'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkOutput(o.output); err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	addCluster(c, &o.cluster)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	c.Flags().StringVarP(&o.output, "output", "o", o.output, "`format`: text or json")
	completeOutput(c)
	return c
}

func (o *checkOptions) run(ctx context.Context, out, errOut io.Writer) error {
	klog.SetLogger(logr.Discard()) // errors are printed below
	cfg, err := o.cluster.Config()
	if err != nil {
		return err
	}
	cfg.Timeout = requestTimeout
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	checker, err := check.New(cfg, clock.RealClock{}, o.namespace)
	if err != nil {
		return err
	}
	results, err := checker.Run(ctx)
	if err != nil {
		return err
	}
	if err := o.print(out, results); err != nil {
		return err
	}
	if n := preflight.Failed(results); n > 0 {
		return fmt.Errorf("%d of %d checks failed", n, len(results))
	}
	return nil
}

func (o *checkOptions) print(out io.Writer, results []preflight.Result) error {
	if o.output == command.OutputJSON {
		return command.PrintJSON(out, results)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range results {
		// Users can write the status of a receiver.
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", r.Level, r.Check, plaintext.Line(r.Message)); err != nil {
			return err
		}
	}
	return table.Flush()
}
