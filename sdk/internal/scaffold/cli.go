// Package scaffold makes operators with the libraries of kubebuilder. A plugin behind those of
// kubebuilder replaces what the toolkit does better.
package scaffold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/kubebuilder/v4/pkg/cli"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/stage"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
	kustomizev2 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/common/kustomize/v2"
	golangv4 "sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/v4"
)

const description = `bongsu-sdk makes Kubernetes operators that report why something does not run.
It is kubebuilder with another controller, so its projects are kubebuilder's too. A failed command
leaves the project as it was.`

const example = `  mkdir cache-operator && cd cache-operator
  bongsu-sdk init --domain example.com --repo github.com/me/cache-operator
  bongsu-sdk create api --group cache --version v1alpha1 --kind Memcached --image memcached --port 11211
  go test ./...
  bongsu-sdk run`

// Run executes a command line in the project of the working directory. toolkit is the default of
// the flag --toolkit. Results are written to out.
func Run(ctx context.Context, args []string, toolkit string, out io.Writer) error {
	slog.SetLogLoggerLevel(slog.LevelWarn) // kubebuilder logs the files that it writes, but not ours
	if err := answerFormer(args); err != nil {
		return err
	}
	files := &files{dir: "."}
	root, err := newCommand(newPlugin(ctx, toolkit, files, out))
	if err != nil {
		return err
	}
	root.SetArgs(args)
	root.SetOut(out)
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
func newCommand(ours plugin.Plugin) (*cobra.Command, error) {
	// Plain kubebuilder accepts a project only if it knows the name in its file PROJECT.
	bundle, err := plugin.NewBundleWithOptions(
		plugin.WithName("go.kubebuilder.io"),
		plugin.WithVersion(plugin.Version{Number: 4, Stage: stage.Stable}),
		plugin.WithPlugins(kustomizev2.Plugin{}, golangv4.Plugin{}, ours),
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
	root.Example = example
	for _, name := range []string{"plugins", "project-version"} { // there is one of each
		for _, flags := range []*pflag.FlagSet{root.PersistentFlags(), root.Flags()} {
			if f := flags.Lookup(name); f != nil {
				f.Hidden = true
			}
		}
	}
	presetFlags(root)
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

// refused are flags of kubebuilder that other files of the tool do not fit, by command.
var refused = map[string][]string{
	"init": {"namespaced"},
	"api":  {"ssa", "controller-name"},
	"edit": {"namespaced", "force", "license", "license-file", "owner"},
}

// presetFlags changes the flags of kubebuilder's commands. It does not ask for values that are set. The
// tool generates code itself. Hidden flags are refused, or have no effect.
func presetFlags(root *cobra.Command) {
	for _, c := range []struct {
		path            []string
		presets, hidden []string
	}{
		{[]string{"init"}, []string{"fetch-deps=false"}, refused["init"]}, // the toolkit's version of controller-runtime is fetched instead
		{[]string{"create", "api"}, []string{"resource=true", "controller=true", "make=false"}, append([]string{"make", "force"}, refused["api"]...)},
		{[]string{"create", "webhook"}, []string{"make=false"}, []string{"make", "force"}},
		{[]string{"edit"}, nil, refused["edit"]},
	} {
		command, _, err := root.Find(c.path)
		if err != nil || command == root {
			continue // in a directory without a project, for example
		}
		changeFlags(command.Flags(), c.presets, c.hidden)
	}
}

// changeFlags sets flags, whose value becomes the default, and hides others.
func changeFlags(flags *pflag.FlagSet, presets, hidden []string) {
	for _, preset := range presets {
		name, value, _ := strings.Cut(preset, "=")
		if flags.Set(name, value) == nil {
			flags.Lookup(name).DefValue = value
		}
	}
	for _, name := range hidden {
		if f := flags.Lookup(name); f != nil {
			f.Hidden = true
		}
	}
	for name, usage := range map[string]string{"resource": "create the types", "controller": "create the controller"} {
		if f := flags.Lookup(name); f != nil {
			f.Usage = usage
		}
	}
}

// version returns the versions of the tool and of its libraries, as go install knows them.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "bongsu-sdk (devel)"
	}
	versions := []string{"bongsu-sdk " + cmp.Or(info.Main.Version, "(devel)")}
	for _, d := range info.Deps {
		if d.Path == "sigs.k8s.io/kubebuilder/v4" || d.Path == "sigs.k8s.io/controller-tools" {
			versions = append(versions, d.Path+" "+d.Version)
		}
	}
	return strings.Join(append(versions, info.GoVersion), "\n")
}

// guard checks the command line before a command writes anything, and keeps the present files.
func guard(command *cobra.Command, files *files) {
	run := command.PreRunE
	command.PreRunE = func(c *cobra.Command, args []string) error {
		if err := findGo(); err != nil {
			return err
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

// findGo returns an error if the go command is missing.
func findGo() error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("go is not in PATH: install Go, or add its directory to PATH")
	}
	return nil
}

// check returns the first mistake in a command line that kubebuilder does not find, or finds late.
func check(c *cobra.Command) error {
	for _, name := range refused[c.Name()] {
		if c.Flags().Changed(name) {
			return fmt.Errorf("bongsu-sdk does not support --%s: omit it", name)
		}
	}
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
	if err != nil {
		return err
	}
	if c.Name() == "edit" {
		return checkEdit(c.Flags())
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
