package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/cli/watch"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// watchOptions are the arguments and flags of `bongsu watch`.
type watchOptions struct {
	typeName      string
	kubeconfig    string
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
		Short: "Print what is added, changed and deleted",
		Long: `Print a line for each object that is added, changed or deleted, and say of a change
what it is. The type is pods if none is given; it may be any that the server has,
by any name that kubectl knows it by. The namespace is that of the kubeconfig's
context, or of the pod that this runs in.

What there is already is printed first, in the order of names, as ADDED. An object
that no longer matches the selector is printed as DELETED. After a disconnect, what
has changed meanwhile is printed, and nothing else.

Values of Secrets are never printed, nor annotations of Secrets: only which key was
added, changed or removed.

It runs until it is told to stop (SIGINT, SIGTERM). How the watch itself is doing
is said on standard error.`,
		Example: `  bongsu watch
  bongsu watch deployments -n shop --diff
  bongsu watch alarms.bongsu.io -A --only-changes
  bongsu watch pods -l app=web -o json | jq -r 'select(.type == "DELETED") | .key'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTypes(&o.kubeconfig, func(string) bool { return true }),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.typeName = args[0]
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c.Flags())
	completeOutput(c)
	return c
}

func (o *watchOptions) addFlags(flags *pflag.FlagSet) {
	addKubeconfig(flags, &o.kubeconfig)
	flags.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` to watch, instead of the context's own")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "watch all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "label `selector`, such as app=web,tier!=cache")
	flags.StringVarP(&o.output, "output", "o", o.output, "`format`: text, or json for an object a line")
	flags.BoolVar(&o.diff, "diff", false, "print the whole difference too, not only what it comes to")
	flags.BoolVar(&o.onlyChanges, "only-changes", false, "do not print what there is already")
}

func (o *watchOptions) run(ctx context.Context, out, errOut io.Writer) error {
	selector, err := o.validate()
	if err != nil {
		return usage(err)
	}
	klog.SetLogger(logr.Discard()) // what users need to know is told below
	tell := func(line string) { _, _ = fmt.Fprintln(errOut, plaintext.Line(line)) }
	cfg, err := kube.Config(o.kubeconfig)
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
		Print: o.printer(out), Tell: tell, Clock: clock.RealClock{},
	})
}

func (o *watchOptions) validate() (labels.Selector, error) {
	if o.namespace != "" && o.allNamespaces {
		return nil, errors.New("give --namespace or --all-namespaces, not both")
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

func (o *watchOptions) printer(out io.Writer) watch.Printer {
	if o.output == outputJSON {
		return watch.JSONPrinter{Out: out, Diff: o.diff}
	}
	return watch.TextPrinter{Out: out, Diff: o.diff}
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
		target.Namespace, err = o.where()
	}
	return target, err
}

func (o *watchOptions) where() (string, error) {
	switch {
	case o.allNamespaces:
		return metav1.NamespaceAll, nil
	case o.namespace != "":
		return o.namespace, nil
	}
	return kube.Namespace(o.kubeconfig)
}

func typesOf(cfg *rest.Config) (*watch.Types, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return watch.NewTypes(client), nil
}

// completionTimeout is how long a shell waits for the names of types.
const completionTimeout = 3 * time.Second

// completeTypes offers those of the server's types that are suitable, for the first
// argument. Where it can not be asked there is nothing to offer, and nothing to say
// either: somebody is typing.
func completeTypes(kubeconfig *string, suitable func(name string) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		klog.SetLogger(logr.Discard())
		cfg, err := kube.Config(*kubeconfig)
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
