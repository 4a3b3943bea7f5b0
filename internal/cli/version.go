package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/cli/check"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/version"
)

// versionOptions are the flags of `bongsu version`.
type versionOptions struct {
	server    bool
	cluster   kube.Target
	namespace string
	output    string
}

// versions is the output of `bongsu version -o json`.
type versions struct {
	Version  string         `json:"version"`
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Server   *check.Running `json:"server,omitempty"`
}

func newVersion() *cobra.Command {
	o := versionOptions{output: outputText, namespace: options.Default().Namespace}
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build and of the operator in the cluster",
		Long: `Print the version, Go version and platform of this build. With --server, print also
the Kubernetes version of the cluster and the image of its operator.`,
		Example: `  bongsu version --server
  bongsu version -o json | jq -r .version`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkOutput(o.output); err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&o.server, "server", false, "print also the versions in the cluster")
	addCluster(c, &o.cluster)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	c.Flags().StringVarP(&o.output, "output", "o", o.output, "`format`: text or json")
	completeOutput(c)
	return c
}

func (o *versionOptions) run(ctx context.Context, out io.Writer) error {
	v := versions{Version: version.String(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if o.server {
		running, err := o.ask(ctx)
		if err != nil {
			return err
		}
		v.Server = &running
	}
	if o.output == command.OutputJSON {
		return command.PrintJSON(out, v)
	}
	_, err := fmt.Fprintf(out, "%s (%s, %s)\n", v.Version, v.Go, v.Platform)
	if err != nil || v.Server == nil {
		return err
	}
	_, err = fmt.Fprintln(out, v.Server)
	return err
}

func (o *versionOptions) ask(ctx context.Context) (check.Running, error) {
	cfg, err := o.cluster.Config()
	if err != nil {
		return check.Running{}, err
	}
	cfg.Timeout = requestTimeout
	checker, err := check.New(cfg, clock.RealClock{}, o.namespace)
	if err != nil {
		return check.Running{}, err
	}
	return checker.Running(ctx)
}
