// Package cli defines the commands of bongsu: names, arguments, flags, help texts and
// output formats. The packages below it implement the commands.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/command"
	"github.com/bongsu-io/bongsu/internal/version"
)

// Run executes the command line and returns the exit code: see command.Run.
func Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	return command.Run(ctx, New(), args, out, errOut)
}

// New returns the root command with all subcommands.
func New() *cobra.Command {
	command.DiscardLogs()
	root := &cobra.Command{
		Use:   "bongsu",
		Short: "Kubernetes operator that explains a shared cluster to its users",
		Long: `Bongsu is a Kubernetes operator for shared clusters. It sends the Events that matter
to the people who need them. It also copies Secrets, and runs notebooks and apps.`,
		Version: version.String(),
	}
	root.AddCommand(newLocal(), newAlarm(), newWatch(), newExplain(), newOpen(), newInstall(), newUninstall(), newCheck(), newVersion())
	return root
}
