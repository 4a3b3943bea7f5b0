package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/cli/explain"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// requestTimeout limits a single request to the API server.
const requestTimeout = 30 * time.Second

// explainOptions are the arguments and flags of `bongsu explain`.
type explainOptions struct {
	typeName   string
	name       string
	kubeconfig string
	namespace  string
	output     string
}

func newExplain() *cobra.Command {
	o := explainOptions{output: outputText}
	c := &cobra.Command{
		Use:   "explain TYPE[.VERSION][.GROUP]/NAME",
		Short: "Explain why an object does not run, and what to do",
		Long: fmt.Sprintf(`Show whether an object runs. If it does not, show the cause and what to do. The command
reads the object, the objects that belong to it, and their Events. If a container
crashed, the command also shows the end of its log.

The type is one of %s.
All names that kubectl accepts are valid, and so is TYPE NAME instead of TYPE/NAME. The
namespace is the namespace of the kubeconfig's context, or of the pod in which the
command runs.

The command uses your own permissions and changes nothing. It lists the objects that
you may not read, and explains the object without them.

The exit code is 0 if the object could be explained, even if it does not run.`, typeList()),
		Example: `  bongsu explain pod/web-5d9c7b6f4-x2x8p
  bongsu explain deploy/web -n shop
  bongsu explain jupyter anna -n lab
  bongsu explain appsvc/web -n shop
  bongsu explain job/import -o json | jq -r .cause.reason`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeTypes(&o.kubeconfig, func(name string) bool { return slices.Contains(explain.Types(), name) }),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.parse(args); err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	command.AddKubeconfig(c.Flags(), &o.kubeconfig)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the object, instead of the namespace of the context")
	c.Flags().StringVarP(&o.output, "output", "o", o.output, "`format`: text or json")
	completeOutput(c)
	return c
}

// typeList returns the types for the help text, in two lines.
func typeList() string {
	types := explain.Types()
	last := len(types) - 1
	return strings.Join(types[:last/2], ", ") + ",\n" + strings.Join(types[last/2:last], ", ") + " or " + types[last]
}

// parse reads TYPE/NAME, or TYPE NAME.
func (o *explainOptions) parse(args []string) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if len(args) == 1 {
		args = strings.Split(args[0], "/")
	}
	const typeAndName = 2
	if len(args) != typeAndName || args[0] == "" || args[1] == "" || strings.Contains(args[0]+args[1], "/") {
		return errors.New("the object is missing or invalid: use TYPE/NAME, such as pod/web-0")
	}
	o.typeName, o.name = args[0], args[1]
	return nil
}

func (o *explainOptions) run(ctx context.Context, out, errOut io.Writer) error {
	klog.SetLogger(logr.Discard()) // errors are printed below
	cfg, err := kube.Config(o.kubeconfig)
	if err != nil {
		return err
	}
	cfg.Timeout = requestTimeout
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	namespace := o.namespace
	if namespace == "" {
		if namespace, err = kube.Namespace(o.kubeconfig); err != nil {
			return err
		}
	}
	found, err := o.explain(ctx, cfg, namespace)
	if err != nil {
		return err
	}
	return o.print(out, found)
}

func (o *explainOptions) explain(ctx context.Context, cfg *rest.Config, namespace string) (*explain.Explanation, error) {
	types, err := typesOf(cfg)
	if err != nil {
		return nil, err
	}
	resource, err := types.Find(ctx, o.typeName)
	if err != nil {
		return nil, err
	}
	explainer, err := explain.New(cfg)
	if err != nil {
		return nil, err
	}
	found, err := explainer.Explain(ctx, resource.Resource.GroupResource(), namespace, o.name)
	if errors.Is(err, explain.ErrType) {
		return nil, command.Usage(err)
	}
	return found, err
}

func (o *explainOptions) print(out io.Writer, found *explain.Explanation) error {
	if o.output == command.OutputJSON {
		return command.PrintJSON(out, found)
	}
	return explain.WriteText(out, found, clock.RealClock{}.Now())
}
