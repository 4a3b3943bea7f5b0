package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cli/browser"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/cli/open"
	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
)

// openOptions are the arguments and flags of `bongsu open`.
type openOptions struct {
	typeName  string
	name      string
	cluster   kube.Target
	namespace string
	resume    bool
	noBrowser bool
	printURL  bool
	address   string
	port      uint16
}

func newOpen() *cobra.Command {
	o := openOptions{address: "127.0.0.1"}
	c := &cobra.Command{
		Use:   "open jupyter/NAME",
		Short: "Open a notebook in the browser",
		Long: `Forward a local port to the notebook, and open the browser with the notebook's token. The
notebook needs no Ingress.

If the notebook is starting, the command waits and shows the progress. If the notebook does
not start, the command reports the cause. With --resume, it starts a suspended notebook.

The command runs until you stop it (Ctrl-C). If the notebook's pod is replaced, the command
connects again, at the same local port. It prints its progress on standard error.

The browser gets the token from a file that only you can read. The command deletes the file
after five minutes, or when it ends. It prints the token only with --print-url.

The command uses your own permissions. You must be allowed to get Jupyters, to get the
Secret with the token, and to create pods/portforward. The role edit contains all of these.`,
		Example: `  bongsu open jupyter/ana
  bongsu open jupyter/ana -n lab --resume
  bongsu open jupyter ana --no-browser --print-url --port 8888`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: o.complete,
		RunE: func(c *cobra.Command, args []string) error {
			ip, err := o.parse(args)
			if err != nil {
				return command.Usage(err)
			}
			return o.run(c.Context(), ip, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c)
	return c
}

func (o *openOptions) addFlags(c *cobra.Command) {
	flags := c.Flags()
	addCluster(c, &o.cluster)
	flags.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the notebook, instead of the namespace of the context")
	flags.BoolVar(&o.resume, "resume", false, "start the notebook if it is suspended")
	flags.BoolVar(&o.noBrowser, "no-browser", false, "do not open a browser")
	flags.BoolVar(&o.printURL, "print-url", false, "print the URL with the token on standard output")
	flags.StringVar(&o.address, "address", o.address, "local IP `address` to listen on; other machines can reach one that is not a loopback address")
	flags.Uint16Var(&o.port, "port", 0, "local `port` to listen on (default: a free port)")
}

func (o *openOptions) parse(args []string) (net.IP, error) {
	var err error
	if o.typeName, o.name, err = parseObject(args, "jupyter/ana"); err != nil {
		return nil, err
	}
	ip := net.ParseIP(o.address)
	if ip == nil {
		return nil, fmt.Errorf("--address is %q: use an IP address, such as 127.0.0.1", o.address)
	}
	return ip, nil
}

func (o *openOptions) run(ctx context.Context, ip net.IP, out, errOut io.Writer) error {
	cfg, err := o.cluster.Config()
	if err != nil {
		return err
	}
	cfg.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	if err := o.complement(ctx, cfg); err != nil {
		return err
	}
	config := open.Config{
		REST: cfg, Namespace: o.namespace, Name: o.name, Resume: o.resume, Address: ip, Port: o.port, PrintURL: o.printURL,
		Out: out, Status: func(line string) { _, _ = fmt.Fprintln(errOut, line) }, Clock: clock.RealClock{},
	}
	if !o.noBrowser {
		browser.Stdout, browser.Stderr = io.Discard, io.Discard
		config.Browse = browser.OpenFile
	}
	return open.Run(ctx, config)
}

// complement checks the type and sets the namespace.
func (o *openOptions) complement(ctx context.Context, cfg *rest.Config) error {
	types, err := typesOf(cfg)
	if err != nil {
		return err
	}
	found, err := types.Find(ctx, o.typeName)
	if err != nil {
		return err
	}
	if found.Resource.GroupResource() != open.Resource {
		return command.Usage(errors.New(found.String() + " cannot be opened: use jupyter/NAME"))
	}
	if o.namespace == "" {
		o.namespace, err = o.cluster.Namespace()
	}
	return err
}

// complete completes the names of notebooks. It ignores errors, because an error message
// would disturb the user's input.
func (o *openOptions) complete(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := o.notebooks(c.Context())
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (o *openOptions) notebooks(ctx context.Context) ([]string, error) {
	cfg, err := o.cluster.Config()
	if err != nil {
		return nil, err
	}
	cfg.Timeout = completionTimeout
	namespace := o.namespace
	if namespace == "" {
		if namespace, err = o.cluster.Namespace(); err != nil {
			return nil, err
		}
	}
	api, err := kube.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.JupyterList
	if err := api.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, "jupyter/"+list.Items[i].Name)
	}
	return names, nil
}
