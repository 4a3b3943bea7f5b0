// Package cli is the command line of bongsu: its commands, flags and exit codes. The logic
// of each command is in a package below it.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/version"
)

// Run executes the command line and returns the exit code: see command.Run.
func Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	return command.Run(ctx, New(), args, out, errOut)
}

// New returns the root command with all others below it.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "bongsu",
		Short: "Makes a shared Kubernetes cluster explain itself",
		Long: `Bongsu is a Kubernetes operator for clusters that a team shares.
The Events that matter reach the channel of the person who cares.`,
		Version: version.String(),
	}
	root.AddCommand(newLocal(), newAlarm(), newWatch(), newExplain(), newInstall(), newUninstall(), newCheck(), newVersion())
	return root
}

func usage(err error) error { return command.Usage(err) }

func addKubeconfig(flags *pflag.FlagSet, kubeconfig *string) {
	command.AddKubeconfig(flags, kubeconfig)
}
