// Package command is shared by the command lines of bongsu and bongsu-operator. It contains
// exit codes, errors of usage, output formats, and the flags of the log and the kubeconfig. It also
// brings root certificates and time zones.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of both commands.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2
	// ExitProblems means that the command found problems in the cluster.
	ExitProblems = 3
)

// Main executes a command with the arguments of this process, and returns the exit code.
// SIGINT and SIGTERM cancel the context of the command.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, root, os.Args[1:], os.Stdout, os.Stderr)
}

// Run executes a command, prints its error, and returns the exit code. The code is
// ExitUsage if the arguments are wrong.
func Run(ctx context.Context, root *cobra.Command, args []string, out, errOut io.Writer) int {
	parsed := false
	root.PersistentPreRun = func(*cobra.Command, []string) { parsed = true }
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	_, _ = fmt.Fprintf(errOut, "error: %v\n", err)
	if _, ok := errors.AsType[usageError](err); !parsed || ok {
		_, _ = fmt.Fprintf(errOut, "see '%s --help'\n", command.CommandPath())
		return ExitUsage
	}
	if _, ok := errors.AsType[problemsError](err); ok {
		return ExitProblems
	}
	return ExitError
}

// usageError is an error in the arguments that cobra does not detect.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as one of the arguments: the exit code is then ExitUsage.
func Usage(err error) error { return usageError{err} }

// problemsError reports that the command worked, and found problems.
type problemsError struct{ error }

func (e problemsError) Unwrap() error { return e.error }

// Problems marks an error as a finding: the exit code is then ExitProblems.
func Problems(err error) error { return problemsError{err} }

// AddKubeconfig adds the flag --kubeconfig.
func AddKubeconfig(flags *pflag.FlagSet, kubeconfig *string) {
	flags.StringVar(kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: $KUBECONFIG, ~/.kube/config, or the pod's own)")
}
