package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// installOptions are the flags of `bongsu install`.
type installOptions struct {
	cluster           kube.Target
	namespace, output string
	files, settings   []string
	apply             bool
	timeout           time.Duration
}

func newInstall() *cobra.Command {
	o := installOptions{namespace: options.Default().Namespace, output: command.OutputYAML, timeout: 5 * time.Minute}
	c := &cobra.Command{
		Use:   "install",
		Short: "Print the manifests of an installation, or apply them",
		Long: `Print the manifests of an installation in the order in which they must be applied:
the namespace, kinds, permissions, admission policies and the operator. They equal the
manifests of the Helm chart charts/bongsu, whose values.yaml lists the settings.

With --apply, apply the manifests and wait until the operator is ready. Run the command
again to upgrade. An upgrade writes only objects that have changed. It removes objects
that an earlier --apply created and that are no longer needed, but never kinds.`,
		Example: `  bongsu install | kubectl apply -f -
  bongsu install --apply --set image.repository=registry.example/bongsu
  bongsu install --apply --set 'controllers={alarm,alarm-secrets,secretshare}' --set replicas=1
  bongsu install -f values.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	flags := c.Flags()
	addCluster(c, &o.cluster)
	flags.StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	flags.StringVarP(&o.output, "output", "o", o.output, "`format` to print: yaml or json")
	flags.StringArrayVar(&o.settings, "set", nil, "`value` of the chart, such as replicas=1; can be repeated")
	flags.StringArrayVarP(&o.files, "values", "f", nil, "`file` with values of the chart; can be repeated")
	flags.BoolVar(&o.apply, "apply", false, "apply the manifests instead of printing them")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "how long --apply waits until the operator is ready")
	return c
}

func (o *installOptions) run(ctx context.Context, out io.Writer) error {
	if o.output != command.OutputYAML && o.output != command.OutputJSON {
		return command.Usage(fmt.Errorf("--output is %q: use yaml or json", o.output))
	}
	values, err := chart.Values(o.files, o.settings)
	if err != nil {
		return command.Usage(err)
	}
	objects, err := chart.Render(o.namespace, values)
	if err != nil {
		return command.Usage(err)
	}
	switch {
	case o.apply:
		return o.applyManifests(ctx, out, objects)
	case o.output == command.OutputJSON:
		return chart.WriteJSON(out, objects)
	}
	return chart.WriteYAML(out, objects)
}

func (o *installOptions) applyManifests(ctx context.Context, out io.Writer, objects chart.Manifests) error {
	cfg, err := o.cluster.Config()
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
		return fmt.Errorf("after %v %w: the manifests are applied; to wait longer, run `bongsu install --apply` again", o.timeout, err)
	}
	return err
}

// lines returns a function that writes a line to out.
func lines(out io.Writer) func(string) {
	return func(line string) { _, _ = fmt.Fprintln(out, line) }
}
