// Package cmd is the command line of bongsu-operator.
package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/internal/operator"
	"github.com/bongsu-io/bongsu/internal/operator/options"
	"github.com/bongsu-io/bongsu/internal/version"
)

// flags are the flags of bongsu-operator without a subcommand.
type flags struct {
	options          options.Options
	logs             command.Logging
	kubeconfig, file string
	local            string // the version of the parent; empty without one
}

// New returns the command that runs the operator, with its subcommands.
func New() *cobra.Command {
	f := flags{options: options.Default()}
	c := &cobra.Command{
		Use:   "bongsu-operator",
		Short: "Run the Bongsu operator",
		Long: `Run the operator for the cluster of --kubeconfig. Without this flag, it uses $KUBECONFIG,
~/.kube/config, or the service account of the pod that it runs in: the first that exists.

The operator runs until it receives SIGINT or SIGTERM. It then finishes the requests in
flight, stores its position, and exits within ten seconds.`,
		Example: `  bongsu-operator --kubeconfig ~/.kube/config --data-dir ./data --log-format text -v`,
		Version: version.String(),
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c)
		},
	}
	f.options.AddFlags(c.Flags())
	f.logs.AddFlags(c.Flags())
	command.AddKubeconfig(c.Flags(), &f.kubeconfig)
	c.Flags().StringVar(&f.file, "config", "", "YAML `file` whose keys are the names of these flags; the command line has precedence")
	c.Flags().StringVar(&f.local, options.LocalFlag, "", "run as a child process of bongsu local of this `version`")
	_ = c.Flags().MarkHidden(options.LocalFlag) // fails only if there is no such flag
	c.AddCommand(newPending(), newVersion())
	return c
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s (%s, %s/%s)\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

func (f *flags) run(c *cobra.Command) error {
	if err := readOptions(f.file, c.Flags(), &f.options); err != nil {
		return err
	}
	log, err := f.logs.Logger(c.ErrOrStderr())
	if err != nil {
		return err
	}
	cfg, err := kube.Config(f.kubeconfig)
	if err != nil {
		return err
	}
	limitMemory(log)
	config := operator.Config{REST: cfg, Options: f.options, Out: c.OutOrStdout(), Log: log}
	if f.local != "" {
		return runLocal(c.Context(), config, f.local, c.InOrStdin())
	}
	app, err := operator.New(c.Context(), config)
	if err != nil {
		return err
	}
	return app.Start(c.Context())
}

func readOptions(file string, flags *pflag.FlagSet, opts *options.Options) error {
	if file != "" {
		if err := options.ReadFile(file, flags); err != nil {
			return command.Usage(fmt.Errorf("--config: %w", err))
		}
	}
	if err := opts.Validate(); err != nil {
		return command.Usage(err)
	}
	return nil
}

// memoryRatio is the part of the container's memory limit that Go may use. SQLite and the stacks of
// the kernel need the rest.
const memoryRatio = 0.9

// limitMemory collects garbage when the heap has grown by 40% instead of 100%. The operator
// uses little processor time, so saving memory is worth it. Near the memory limit of the container,
// Go collects more often. $GOGC and $GOMEMLIMIT have precedence.
func limitMemory(log logr.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(40)
	}
	limit, err := memlimit.SetGoMemLimit(memoryRatio)
	switch {
	case err != nil:
		log.V(1).Info("The memory limit of the container is unknown", "reason", err.Error())
	case limit > 0:
		log.Info("Go's memory is limited, below the limit of the container", "bytes", limit)
	}
}

// runLocal runs the operator as a child of `bongsu local`: see options.LocalFlag.
func runLocal(ctx context.Context, config operator.Config, parent string, in io.Reader) error {
	ready := os.NewFile(options.LocalReadyFD, "ready")
	if info, err := ready.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return command.Usage(fmt.Errorf("--%s is for the command bongsu local: remove it", options.LocalFlag))
	}
	if parent != version.String() {
		return command.Usage(fmt.Errorf("bongsu has version %s, but bongsu-operator has version %s: install both from one build", parent, version.String()))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // returns when the parent has ended
		cancel()
	}()
	app, err := operator.New(ctx, config)
	if err != nil {
		return err
	}
	go reportAtWork(ctx, app, ready)
	return app.Start(ctx)
}

// reportAtWork writes to the pipe of the parent when the operator is at work.
func reportAtWork(ctx context.Context, app *operator.App, ready *os.File) {
	if app.AtWork(ctx) == nil {
		_, _ = ready.Write([]byte{'\n'}) // fails only if the parent has ended
	}
	_ = ready.Close()
}
