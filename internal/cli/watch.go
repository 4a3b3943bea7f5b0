package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/cli/watch"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// watchOptions are the arguments and flags of `bongsu watch`.
type watchOptions struct {
	typeName      string
	cluster       kube.Target
	namespace     string
	allNamespaces bool
	selector      string
	output        string
	diff          bool
	onlyChanges   bool
}

func newWatch() *cobra.Command {
	o := watchOptions{typeName: "pods", output: outputText}
	c := &cobra.Command{
		Use:   "watch [TYPE[.VERSION][.GROUP]]",
		Short: "Print each object that is added, changed or deleted",
		Long: `Print a line for each object that is added, changed or deleted, with the differences.
The default type is pods. All types of the server are valid, with any name that kubectl
accepts. The namespace is the namespace of the kubeconfig's context, or of the pod in
which the command runs.

A line contains the time in UTC, the change, and TYPE/NAME, as kubectl accepts them.

First the command prints the existing objects as ADDED, sorted by name. It prints an
object that no longer matches the selector as DELETED. After a disconnect, it prints
only the changes that happened meanwhile.

The command never prints values or annotations of Secrets. It prints only which key was
added, changed or removed.

The command runs until you stop it (SIGINT, SIGTERM). It reports the state of the
connection on standard error.`,
		Example: `  bongsu watch
  bongsu watch deployments -n shop --diff
  bongsu watch alarms.bongsu.io -A --only-changes
  bongsu watch pods -l app=web -o json | jq -r 'select(.type == "DELETED") | .key'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTypes(&o.cluster, func(string) bool { return true }),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.typeName = args[0]
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c)
	completeOutput(c)
	return c
}

func (o *watchOptions) addFlags(c *cobra.Command) {
	flags := c.Flags()
	addCluster(c, &o.cluster)
	flags.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` to watch, instead of the namespace of the context")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "watch all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "label `selector`, such as app=web,tier!=cache")
	flags.StringVarP(&o.output, "output", "o", o.output, "`format`: text, or json for one JSON object per line")
	flags.BoolVar(&o.diff, "diff", false, "print also the complete difference as a unified diff")
	flags.BoolVar(&o.onlyChanges, "only-changes", false, "do not print the objects that exist at the start")
}

func (o *watchOptions) run(ctx context.Context, out, errOut io.Writer) error {
	selector, err := o.validate()
	if err != nil {
		return command.Usage(err)
	}
	status := func(line string) { _, _ = fmt.Fprintln(errOut, plaintext.Line(line)) }
	cfg, err := o.cluster.Config()
	if err != nil {
		return err
	}
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	target, err := o.target(ctx, cfg, selector)
	if err != nil {
		return err
	}
	return watch.Run(ctx, watch.Config{
		Client: client, Target: target, OnlyChanges: o.onlyChanges,
		Print: o.printer(out, target.Type), Status: status, Clock: clock.RealClock{},
	})
}

func (o *watchOptions) validate() (labels.Selector, error) {
	if o.namespace != "" && o.allNamespaces {
		return nil, errors.New("--namespace and --all-namespaces exclude each other: use one of them")
	}
	if err := checkOutput(o.output); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return selector, nil
}

func (o *watchOptions) printer(out io.Writer, of watch.ResourceType) watch.Printer {
	if o.output == command.OutputJSON {
		return watch.JSONPrinter{Out: out, Diff: o.diff}
	}
	return watch.TextPrinter{Out: out, Type: of, Diff: o.diff}
}

func (o *watchOptions) target(ctx context.Context, cfg *rest.Config, selector labels.Selector) (watch.Target, error) {
	types, err := typesOf(cfg)
	if err != nil {
		return watch.Target{}, err
	}
	target := watch.Target{Selector: selector}
	if target.Type, err = types.Find(ctx, o.typeName); err != nil {
		return watch.Target{}, err
	}
	if target.Type.Namespaced {
		target.Namespace, err = o.targetNamespace()
	}
	return target, err
}

func (o *watchOptions) targetNamespace() (string, error) {
	switch {
	case o.allNamespaces:
		return metav1.NamespaceAll, nil
	case o.namespace != "":
		return o.namespace, nil
	}
	return o.cluster.Namespace()
}

func typesOf(cfg *rest.Config) (*watch.Types, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return watch.NewTypes(client), nil
}

// completionTimeout limits the requests of shell completion.
const completionTimeout = 3 * time.Second

// completeTypes completes the first argument with the suitable types of the server. It
// ignores errors, because an error message would disturb the user's input.
func completeTypes(cluster *kube.Target, suitable func(name string) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cfg, err := cluster.Config()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cfg.Timeout = completionTimeout
		types, err := typesOf(cfg)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := types.Names(c.Context())
		return slices.DeleteFunc(names, func(name string) bool { return !suitable(name) }), cobra.ShellCompDirectiveNoFileComp
	}
}
