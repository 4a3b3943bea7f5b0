// Package scaffold makes operators with the libraries of kubebuilder. A plugin behind those of
// kubebuilder replaces what the toolkit does better.
package scaffold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kubebuilder/v4/pkg/cli"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/stage"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	kustomizev2 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/common/kustomize/v2"
	golangv4 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/v4"
)

const description = `bongsu-sdk makes Kubernetes operators that report why something does not run.
It is kubebuilder with another controller: its projects are kubebuilder's, and its commands
work. A failed command leaves the project as it was.
`

// Run executes a command line in the project of the working directory. toolkit is the default of
// the flag --toolkit.
func Run(ctx context.Context, args []string, toolkit string) error {
	root, err := newCommand(ctx, toolkit)
	if err != nil {
		return err
	}
	root.SetArgs(args)
	files := &files{dir: "."}
	for _, path := range [][]string{{"init"}, {"create", "api"}, {"create", "webhook"}, {"edit"}} {
		if command, _, err := root.Find(path); err == nil && command.PreRunE != nil {
			guard(command, files)
		}
	}
	err = root.ExecuteContext(ctx)
	if ctx.Err() != nil {
		err = errors.New("interrupted") // a command that the signal ended has a worse error
	}
	if err != nil {
		return errors.Join(err, files.restore())
	}
	return nil
}

// newCommand returns the commands of kubebuilder and those of the tool.
func newCommand(ctx context.Context, toolkit string) (*cobra.Command, error) {
	// Plain kubebuilder accepts a project only if it knows the name in its file PROJECT.
	bundle, err := plugin.NewBundleWithOptions(
		plugin.WithName("go.kubebuilder.io"),
		plugin.WithVersion(plugin.Version{Number: 4, Stage: stage.Stable}),
		plugin.WithPlugins(kustomizev2.Plugin{}, golangv4.Plugin{}, newPlugin(ctx, toolkit)),
	)
	if err != nil {
		return nil, err
	}
	c, err := cli.New(
		cli.WithCommandName("bongsu-sdk"),
		cli.WithDescription(description),
		cli.WithVersion(version()),
		cli.WithPlugins(bundle),
		cli.WithDefaultPlugins(cfgv3.Version, bundle),
		cli.WithDefaultProjectVersion(cfgv3.Version),
		cli.WithExtraCommands(newGenerate(), newRun(), newBuild()),
		cli.WithCompletion(),
	)
	if err != nil {
		return nil, err
	}
	root := c.Command()
	root.SilenceErrors, root.SilenceUsage = true, true
	if alpha, _, err := root.Find([]string{"alpha"}); err == nil {
		root.RemoveCommand(alpha) // its commands run kubebuilder, which does not know the plugin
	}
	if root.HasSubCommands() { // otherwise the root returns why there are none
		strict(root)
		root.SetFlagErrorFunc(flagError)
	}
	return root, nil
}

// version returns the version of the tool, as go install knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// guard checks the command line before a command writes anything, and keeps the present files.
func guard(command *cobra.Command, files *files) {
	run := command.PreRunE
	command.PreRunE = func(c *cobra.Command, args []string) error {
		if _, err := exec.LookPath("go"); err != nil {
			return errors.New("go is not in PATH: install Go, or add its directory to PATH")
		}
		if err := check(c); err != nil {
			return err
		}
		if c.Parent().Name() == "create" {
			if _, err := generated(c.Context()); err != nil {
				return err
			}
		}
		if err := files.keep(); err != nil {
			return err
		}
		return run(c, args)
	}
}

// check returns the first mistake in a command line that kubebuilder does not find, or finds late.
func check(c *cobra.Command) error {
	if c.Name() == "init" {
		entries, err := os.ReadDir(".")
		if err != nil {
			return err
		}
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		return checkInit(dir, entries, c.Flags())
	}
	project, err := loadProject()
	if err != nil || c.Name() == "edit" {
		return err
	}
	if value(c.Flags(), "force") == "true" {
		return errors.New("--force overwrites files that you have edited: delete them and the entry in PROJECT instead, and omit --force")
	}
	if err := checkMarkers(value(c.Flags(), "resource") == "true"); err != nil {
		return err
	}
	if c.Name() == "webhook" {
		return nil
	}
	if err := checkAPI(c.Flags()); err != nil {
		return err
	}
	return checkKind(project, c.Flags())
}

// strict makes a command and its subcommands refuse flags and arguments that they do not know.
func strict(c *cobra.Command) {
	c.FParseErrWhitelist.UnknownFlags = false
	if c.HasSubCommands() && !c.Runnable() {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	if c.Args == nil && c.HasParent() { // cobra itself checks the arguments of the root
		c.Args = noArguments
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

func noArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasSubCommands():
		return fmt.Errorf("unknown command %q: see %s --help", args[0], c.CommandPath())
	default:
		return fmt.Errorf("unexpected argument %q: use flags", args[0])
	}
}

// flagError prefers the first unknown argument to an unknown flag behind it.
func flagError(c *cobra.Command, err error) error {
	if unknown := noArguments(c, c.Flags().Args()); unknown != nil {
		return unknown
	}
	return err
}
