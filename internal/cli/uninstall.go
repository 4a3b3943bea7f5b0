package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/bongsu-io/bongsu/internal/cli/chart"
	"github.com/bongsu-io/bongsu/internal/cli/uninstall"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator/options"
)

// uninstallOptions are the flags of `bongsu uninstall`.
type uninstallOptions struct {
	kubeconfig, namespace   string
	deleteData, yes, dryRun bool
	timeout                 time.Duration
}

func newUninstall() *cobra.Command {
	o := uninstallOptions{namespace: options.Default().Namespace, timeout: 10 * time.Minute}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the operator, and what users have made with it only if asked",
		Long: `Remove the operator from a cluster, however it was installed: what runs, rights,
policies, and what it made for itself. What users have made stays: their objects and
the kinds of these, copies of Secrets, notebooks, apps. Finalizers are taken off, so
that everything can be deleted without the operator: copies then stay where they are,
and no backups are made.

With --delete-data all of that is deleted first, while the operator is still at work:
it removes the copies and makes the backups. Then claims of notebooks and apps that
were to be retained go as well, the kinds, and the namespace if the installation made
it. Copies whose rule says deletionPolicy: Retain are nobody's, and stay.`,
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
	addKubeconfig(flags, &o.kubeconfig)
	flags.StringVarP(&o.namespace, "namespace", "n", o.namespace, "`namespace` of the operator")
	flags.BoolVar(&o.deleteData, "delete-data", false, "also delete what users have made, and the kinds")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only tell what would be removed")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "how long to wait, for backups above all")
	return c
}

// confirm asks whoever is at the terminal. No answer is a no.
func (o *uninstallOptions) confirm(in io.Reader, out io.Writer) error {
	if o.yes || o.dryRun {
		return nil
	}
	question := "Remove the operator, and leave what users have made?"
	if o.deleteData {
		question = "Remove the operator and ALL that users have made with it: apps, notebooks with their files, copies of Secrets?"
	}
	_, _ = fmt.Fprintf(out, "%s Type yes: ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n') // what ends before the line does is no yes
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was removed: it takes a yes (or --yes)")
	}
	return nil
}

func (o *uninstallOptions) run(ctx context.Context, out io.Writer) error {
	klog.SetLogger(logr.Discard()) // what users need to know is told below
	cfg, err := kube.Config(o.kubeconfig)
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
