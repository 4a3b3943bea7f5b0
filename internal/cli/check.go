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
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// checkOptions are the flags of `bongsu check`.
type checkOptions struct {
	kubeconfig string
	namespace  string
	output     string
}

func newCheck() *cobra.Command {
	o := checkOptions{output: outputText, namespace: options.Default().Namespace}
	c := &cobra.Command{
		Use:   "check",
		Short: "Say whether the cluster is fit for Bongsu, and how an installation fares",
		Long: `Ask the cluster, with your own rights, for what Bongsu needs of it: its version and
APIs, your rights to install, clocks. If Bongsu is installed, also whether its kinds
and admission policies are those of this version, whether the operator has its rights
and who leads, and which receivers are not Ready. Where nothing is installed, it says
so.

Each line is ok, warn or fail, with a sentence that says what to do. It changes
nothing, and reads no Secret. What you may not read is a warning.

The exit code is 1 if a line is a failure; warnings do not count.`,
		Example: `  bongsu check
  bongsu check -o json | jq -r '.[] | select(.level != "ok") | .message'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkOutput(o.output); err != nil {
				return usage(err)
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	addKubeconfig(c.Flags(), &o.kubeconfig)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	c.Flags().StringVarP(&o.output, "output", "o", o.output, "`format`: text or json")
	completeOutput(c)
	return c
}

func (o *checkOptions) run(ctx context.Context, out, errOut io.Writer) error {
	klog.SetLogger(logr.Discard()) // what users need to know is told below
	cfg, err := kube.Config(o.kubeconfig)
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
	if o.output == outputJSON {
		return printJSON(out, results)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range results {
		// A receiver's status holds what others wrote.
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", f.Level, f.Check, plaintext.Line(f.Message)); err != nil {
			return err
		}
	}
	return table.Flush()
}
