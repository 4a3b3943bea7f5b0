// Package cli holds the commands of bongsu: what they are called, what they take
// and how they speak to a person. What they do is done elsewhere.
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

// Run executes the command line and returns the process's exit code: 2 if the
// command line itself is wrong. It ends early, and in order, when ctx does.
func Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	understood := false
	root := New()
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(errOut, "error: %v\n", err)
	if _, ok := errors.AsType[usageError](err); !understood || ok {
		_, _ = fmt.Fprintf(errOut, "see '%s --help'\n", command.CommandPath())
		return exitUsage
	}
	return exitError
}

// New returns the root command with all others below it.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "bongsu",
		Short: "Makes a shared Kubernetes cluster explain itself",
		Long: `Bongsu is a Kubernetes operator for clusters that a team shares.
The Events that matter reach the channel of the person who cares.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.String(),
	}
	root.AddCommand(newManager(), newLocal(), newAlarm(), newWatch(), newExplain(), newInstall(), newUninstall(), newCheck(), newVersion())
	return root
}

// usageError is an error of the command line that only the command could tell.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error { return usageError{err} }
