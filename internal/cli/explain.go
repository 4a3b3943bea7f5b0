package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// requestTimeout limits a single request to the API server.
const requestTimeout = 30 * time.Second

// explainOptions are the arguments and flags of `bongsu explain`.
type explainOptions struct {
	typeName  string
	name      string
	cluster   kube.Target
	namespace string
	// allNamespaces is only valid without an object.
	allNamespaces bool
	output        string
	watch         bool
}

func newExplain() *cobra.Command {
	o := explainOptions{output: outputText}
	c := &cobra.Command{
		Use:   "explain [TYPE[.VERSION][.GROUP]/NAME]",
		Short: "Explain why an object, or what in a namespace, does not run, and what to do",
		Long: fmt.Sprintf(`Without an object, list the problems of the namespace, the worst first. Each line shows a
cause, and the objects that it affects. For example, a node that does not respond is one
line. With --all-namespaces, list the problems of the cluster.

With an object, show whether an object runs. If it does not, show the cause and what to do. The command
reads the object, the objects that belong to it, and their Events. If a container
crashed, the command also shows the end of its log.

All types of the server are valid. Without an object, the command lists the problems of
these types. It explains objects of other types by their conditions:
%s

All names that kubectl accepts are valid, and so is TYPE NAME instead of TYPE/NAME. The
namespace is the namespace of the kubeconfig's context, or of the pod in which the
command runs.

With --watch, the command explains again every %s, or every %s without an object. It
prints what changes, until you stop it (SIGINT, SIGTERM). With -o json, it prints one JSON
object per line. If the first explanation fails, the command ends. It prints later errors
on standard error.

The command uses your own permissions and changes nothing. It lists what you may not
read, and explains the rest.

The exit code is 0 if the object could be explained, even if it does not run. Without an
object, it is 0 only if there is no problem. It is 3 if there are problems, and 1 if there
is no known problem but something could not be read. Types without a namespace, such as
nodes, are an exception: users who may not list them get 0. With --watch, it is 0.`, typeList(), explain.ObjectInterval, explain.OverviewInterval),
		Example: `  bongsu explain -n shop
  bongsu explain -A -o json | jq -r '.problems[].cause.message'
  bongsu explain pod/web-5d9c7b6f4-x2x8p
  bongsu explain deploy/web -n shop
  bongsu explain jupyter anna -n lab
  bongsu explain certificates.cert-manager.io/web
  bongsu explain node/worker-1
  bongsu explain appsvc/web -n shop
  bongsu explain job/import -o json | jq -r .cause.reason`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: completeTypes(&o.cluster, func(string) bool { return true }),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.parse(args); err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	addCluster(c, &o.cluster)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the object, instead of the namespace of the context")
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "list the problems of all namespaces")
	c.Flags().StringVarP(&o.output, "output", "o", o.output, "`format`: text or json")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "explain again until stopped, and print what changes")
	completeOutput(c)
	return c
}

// typeList returns the types of an overview for the help text, in lines.
func typeList() string {
	const perLine = 4
	var lines []string
	for types := range slices.Chunk(explain.Types(), perLine) {
		lines = append(lines, strings.Join(types, ", "))
	}
	return strings.Join(lines, ",\n")
}

// parse reads TYPE/NAME, TYPE NAME, or nothing.
func (o *explainOptions) parse(args []string) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.allNamespaces && (len(args) > 0 || o.namespace != "") {
		return errors.New("--all-namespaces excludes --namespace and an object: leave out one of them")
	}
	if len(args) == 0 {
		return nil
	}
	var err error
	o.typeName, o.name, err = parseObject(args, "pod/web-0")
	return err
}

// parseObject reads TYPE/NAME or TYPE NAME.
func parseObject(args []string, example string) (typeName, name string, err error) {
	if len(args) == 1 {
		args = strings.Split(args[0], "/")
	}
	const typeAndName = 2
	if len(args) != typeAndName || args[0] == "" || args[1] == "" || strings.Contains(args[0]+args[1], "/") {
		return "", "", errors.New("the object is missing or invalid: use TYPE/NAME, such as " + example)
	}
	return args[0], args[1], nil
}

func (o *explainOptions) run(ctx context.Context, out, errOut io.Writer) error {
	cfg, err := o.cluster.Config()
	if err != nil {
		return err
	}
	cfg.Timeout = requestTimeout
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	namespace := o.namespace
	if namespace == "" && !o.allNamespaces {
		if namespace, err = o.cluster.Namespace(); err != nil {
			return err
		}
	}
	explainer, err := explain.New(cfg, clock.RealClock{})
	if err != nil {
		return err
	}
	explainOnce := func(ctx context.Context) (explain.Result, error) { return explainer.Overview(ctx, namespace) }
	interval := explain.OverviewInterval
	if o.typeName != "" {
		types, err := typesOf(cfg)
		if err != nil {
			return err
		}
		resource, err := types.Find(ctx, o.typeName)
		if err != nil {
			return err
		}
		interval = explain.ObjectInterval
		explainOnce = func(ctx context.Context) (explain.Result, error) {
			return explainer.Explain(ctx, resource.Resource.GroupResource(), namespace, o.name)
		}
	}
	if o.watch {
		w := explain.Watcher{
			Explain: explainOnce, Clock: clock.RealClock{}, Interval: interval,
			Print:  func(found explain.Result) error { return o.printChange(out, found) },
			Report: func(err error) { _, _ = fmt.Fprintln(errOut, plaintext.Line(err.Error())) },
		}
		return w.Run(ctx)
	}
	found, err := explainOnce(ctx)
	if err != nil {
		return err
	}
	if err := o.print(out, found); err != nil {
		return err
	}
	return exitCode(found)
}

// exitCode returns an error for an overview with problems, or one that is incomplete.
func exitCode(found explain.Result) error {
	overview, ok := found.(*explain.Overview)
	if !ok {
		return nil
	}
	if n := len(overview.Problems); n > 0 {
		return command.Problems(fmt.Errorf("found problems: %d", n))
	}
	return overview.Incomplete()
}

// printChange prints a result of a watch: a line of JSON, or text below the time.
func (o *explainOptions) printChange(out io.Writer, found explain.Result) error {
	if o.output == command.OutputJSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(found)
	}
	if _, err := fmt.Fprintf(out, "== %s\n", clock.RealClock{}.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	if err := o.print(out, found); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

func (o *explainOptions) print(out io.Writer, found explain.Result) error {
	if o.output == command.OutputJSON {
		return command.PrintJSON(out, found)
	}
	return explain.WriteResult(out, found, clock.RealClock{}.Now())
}
