package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// installOptions are the flags of `bongsu install`.
type installOptions struct {
	kubeconfig, namespace, output string
	files, settings               []string
	apply                         bool
	timeout                       time.Duration
}

func newInstall() *cobra.Command {
	o := installOptions{namespace: options.Default().Namespace, output: outputYAML, timeout: 5 * time.Minute}
	c := &cobra.Command{
		Use:   "install",
		Short: "Print the manifests of an installation, or apply them",
		Long: `Print all that the operator needs in a cluster: namespace, kinds, rights, admission
policies and the operator itself, in the order in which they must be applied. They
are those of the Helm chart, charts/bongsu, whose values.yaml tells what can be set.

With --apply they are applied, and it is waited until the operator is ready. A second
time upgrades: what has not changed is not written, and what an earlier --apply made
and these manifests have no longer is removed. Kinds are never removed.`,
		Example: `  bongsu install | kubectl apply -f -
  bongsu install --apply --set image.repository=registry.example/bongsu
  bongsu install --apply --set 'controllers={alarm,secretshare}' --set replicas=1
  bongsu install -f values.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	flags := c.Flags()
	addKubeconfig(flags, &o.kubeconfig)
	flags.StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	flags.StringVarP(&o.output, "output", "o", o.output, "`format` to print: yaml or json")
	flags.StringArrayVar(&o.settings, "set", nil, "`value` of the chart, such as replicas=1; may be given again")
	flags.StringArrayVarP(&o.files, "values", "f", nil, "`file` with values of the chart; may be given again")
	flags.BoolVar(&o.apply, "apply", false, "apply the manifests instead of printing them")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "how long --apply waits until the operator is ready")
	return c
}

func (o *installOptions) run(ctx context.Context, out io.Writer) error {
	if o.output != outputYAML && o.output != outputJSON {
		return usage(fmt.Errorf("--output is %q; it must be yaml or json", o.output))
	}
	values, err := chart.Values(o.files, o.settings)
	if err != nil {
		return usage(err)
	}
	objects, err := chart.Render(o.namespace, values)
	if err != nil {
		return usage(err)
	}
	switch {
	case o.apply:
		return o.bringAbout(ctx, out, objects)
	case o.output == outputJSON:
		return chart.WriteJSON(out, objects)
	}
	return chart.WriteYAML(out, objects)
}

func (o *installOptions) bringAbout(ctx context.Context, out io.Writer, objects chart.Manifests) error {
	klog.SetLogger(logr.Discard()) // what users need to know is told below
	cfg, err := kube.Config(o.kubeconfig)
	if err != nil {
		return err
	}
	cfg.Timeout = requestTimeout
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	installer, err := install.New(cfg, lines(out))
	if err != nil {
		return err
	}
	err = installer.Upgrade(ctx, o.namespace, objects)
	if errors.Is(err, install.ErrNotReady) {
		return fmt.Errorf("after %v %w; it is installed, and `bongsu install --apply` again goes on waiting", o.timeout, err)
	}
	return err
}

// lines writes a line at a time for whoever waits.
func lines(out io.Writer) func(string) {
	return func(line string) { _, _ = fmt.Fprintln(out, line) }
}
