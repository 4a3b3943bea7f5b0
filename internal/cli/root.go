// Package cli defines the commands of bongsu: names, arguments, flags, help texts and
// output formats. The packages below it implement the commands.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bongsu-io/bongsu/internal/version"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Run executes a command line and returns the exit code of the process. 0 means success, 1
// an error, 2 an invalid command line. Run shuts down when ctx ends.
func Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	parsed := false
	root := New()
	root.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(errOut, "error: %v\n", err)
	if _, ok := errors.AsType[usageError](err); !parsed || ok {
		_, _ = fmt.Fprintf(errOut, "see '%s --help'\n", command.CommandPath())
		return exitUsage
	}
	return exitError
}

// New returns the root command with all subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "bongsu",
		Short: "Kubernetes operator that explains a shared cluster to its users",
		Long: `Bongsu is a Kubernetes operator for shared clusters. It sends the Events that matter
to the people who need them. It also copies Secrets, and runs notebooks and apps.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.String(),
	}
	root.AddCommand(newManager(), newLocal(), newAlarm(), newWatch(), newExplain(), newInstall(), newUninstall(), newCheck(), newVersion())
	return root
}

// usageError is an error of the command line that the command found itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error { return usageError{err} }
