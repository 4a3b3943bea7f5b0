package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/uninstall"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// uninstallOptions are the flags of `bongsu uninstall`.
type uninstallOptions struct {
	cluster                 kube.Target
	namespace               string
	deleteData, yes, dryRun bool
	timeout                 time.Duration
}

func newUninstall() *cobra.Command {
	o := uninstallOptions{namespace: options.Default().Namespace, timeout: 10 * time.Minute}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the operator, and optionally the objects of users",
		Long: `Remove the operator from a cluster: its workload, permissions, admission policies and
state. This works for every way of installation. The command removes all bindings of
roles to the operator's service account, also those that others created.

The kinds and the objects of users remain, with copies of Secrets, notebooks and apps.
The command removes the operator's finalizers, so that you can delete all objects without
the operator. Copies of Secrets then remain, and no backups are made.

With --delete-data, delete the objects of users first. The operator still runs then: it
removes copies and makes backups. The command also deletes retained claims of notebooks
and apps, the kinds, and the namespace if the installation created it. Copies whose
rule has deletionPolicy: Retain remain.`,
		Example: `  bongsu uninstall --dry-run
  bongsu uninstall --delete-data --timeout 30m`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.confirm(c.InOrStdin(), c.ErrOrStderr()); err != nil {
				return err
			}
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	flags := c.Flags()
	addCluster(c, &o.cluster)
	flags.StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	flags.BoolVar(&o.deleteData, "delete-data", false, "also delete the objects of users, and the kinds")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only print what would be removed")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "how long to wait, mainly for backups")
	return c
}

// confirm asks the user. Any answer but yes cancels.
func (o *uninstallOptions) confirm(in io.Reader, out io.Writer) error {
	if o.yes || o.dryRun {
		return nil
	}
	question := "Remove the operator, and keep the objects of users?"
	if o.deleteData {
		question = "Remove the operator and ALL objects of users: apps, notebooks with their files, copies of Secrets?"
	}
	_, _ = fmt.Fprintf(out, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n') // an incomplete line is checked, too
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was removed: type yes, or use --yes")
	}
	return nil
}

func (o *uninstallOptions) run(ctx context.Context, out io.Writer) error {
	cfg, err := o.cluster.Config()
	if err != nil {
		return err
	}
	cfg.Timeout = requestTimeout
	manifests, err := chart.Everything(o.namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return uninstall.Run(ctx, uninstall.Config{
		REST: cfg, Namespace: o.namespace, Manifests: manifests,
		DeleteData: o.deleteData, DryRun: o.dryRun, Progress: lines(out),
	})
}
