package scaffold

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
	"github.com/spf13/pflag"
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/stage"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
)

const (
	toolkitModule = "github.com/bongsu-io/bongsu"
	boilerplate   = "hack/boilerplate.go.txt" // the license in each file
	movingPath    = "docs/from-operator-sdk.md"
)

//go:embed templates
var templates embed.FS

// ourPlugin changes what kubebuilder's plugins have scaffolded. Its hooks run after theirs.
type ourPlugin struct {
	init    *initCommand
	api     *apiCommand
	webhook *webhookCommand
}

// newPlugin returns the plugin. kubebuilder passes no context to hooks, so they use ctx.
func newPlugin(ctx context.Context, toolkit string, files *files, out io.Writer) plugin.Plugin {
	if toolkit == "" {
		toolkit = "main"
	}
	f := finish{ctx: ctx, files: files, out: out}
	return ourPlugin{init: &initCommand{ctx: ctx, toolkit: toolkit}, api: &apiCommand{finish: f}, webhook: &webhookCommand{finish: f}}
}

func (ourPlugin) Name() string            { return "sdk.bongsu.io" }
func (ourPlugin) Version() plugin.Version { return plugin.Version{Number: 1, Stage: stage.Alpha} }
func (ourPlugin) SupportedProjectVersions() []config.Version {
	return []config.Version{cfgv3.Version}
}
func (p ourPlugin) GetInitSubcommand() plugin.InitSubcommand           { return p.init }
func (p ourPlugin) GetCreateAPISubcommand() plugin.CreateAPISubcommand { return p.api }
func (p ourPlugin) GetCreateWebhookSubcommand() plugin.CreateWebhookSubcommand {
	return p.webhook
}

// initCommand requires the toolkit, and replaces setup-envtest.
type initCommand struct {
	ctx     context.Context
	config  config.Config
	toolkit string
}

// UpdateMetadata replaces the help of kubebuilder.
func (*initCommand) UpdateMetadata(_ plugin.CLIMetadata, help *plugin.SubcommandMetadata) {
	help.Description = `Create the project of an operator in the working directory, which must be empty. It contains a Go
module, a Makefile, and manifests for kustomize. cmd/main.go is the operator, and cmd/local runs it
on a control plane on this machine.`
	help.Examples = `  bongsu-sdk init --domain example.com --repo github.com/me/cache-operator

  # With a copyright, and a branch of the toolkit
  bongsu-sdk init --domain example.com --repo github.com/me/cache-operator --owner "Your name" --toolkit main`
}

func (c *initCommand) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.toolkit, "toolkit", c.toolkit,
		"version or branch of "+toolkitModule+", or the directory of a checkout, which begins with . or /. $BONGSU_TOOLKIT is the default")
}

func (c *initCommand) InjectConfig(config config.Config) error {
	c.config = config
	return nil
}

func (c *initCommand) Scaffold(fs machinery.Filesystem) error {
	for path, changes := range map[string][]change{
		"Makefile": makefile, mainPath: mainFile, "Dockerfile": goVersion, ".devcontainer/devcontainer.json": goVersion, ".golangci.yml": linters,
	} {
		if err := edit(fs, path, changes...); err != nil {
			return err
		}
	}
	for _, path := range []string{"AGENTS.md", ".custom-gcl.yml"} { // they describe setup-envtest, and a linter that is built with a plugin
		if err := fs.FS.Remove(path); err != nil {
			return err
		}
	}
	main, readme, moving := &page{template: "local.tmpl"}, &page{template: "readme.tmpl"}, &page{template: "from-operator-sdk.tmpl"}
	main.Path, readme.Path, moving.Path = filepath.Join(local, "main.go"), "README.md", movingPath
	if err := writePages(fs, c.config, nil, main, readme, moving); err != nil {
		return err
	}
	return c.requireToolkit()
}

// requireToolkit also selects the toolkit's version of controller-runtime.
func (c *initCommand) requireToolkit() error {
	isCheckout, err := checkout(c.toolkit)
	if err != nil {
		return err
	}
	query := toolkitModule + "@" + c.toolkit
	if isCheckout {
		query = toolkitModule + "@v0.0.0" // a version of any name is replaced
		if err := goCommand(c.ctx, "mod", "edit", "-replace", toolkitModule+"="+c.toolkit); err != nil {
			return err
		}
	}
	return goCommand(c.ctx, "get", query)
}

// goCommand runs the go command. Its output is shown only if it fails.
func goCommand(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// finish is the end of a command that adds to a project.
type finish struct {
	ctx   context.Context
	files *files
	out   io.Writer
}

// next says what to do after a command.
func next(edit, command string) string {
	return fmt.Sprintf("Next: edit %s, and run:\n$ %s\n", edit, command)
}

// report generates code. It prints the files that the command has written, and what to do next.
func (f finish) report(next string) error {
	if _, err := generate(f.ctx); err != nil {
		return err
	}
	added, changed, err := f.files.changes()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, path := range added {
		fmt.Fprintln(&text, "Created", path)
	}
	for _, path := range changed {
		fmt.Fprintln(&text, "Changed", path)
	}
	_, err = fmt.Fprint(f.out, &text, next)
	return err
}

// apiCommand replaces the types, the controller and the tests of a kind.
type apiCommand struct {
	finish
	page     page
	config   config.Config
	resource *resource.Resource
	hasSuite bool
}

// UpdateMetadata replaces the help of kubebuilder.
func (*apiCommand) UpdateMetadata(_ plugin.CLIMetadata, help *plugin.SubcommandMetadata) {
	help.Description = `Create a kind: its types, a controller, and tests. The controller runs a Deployment for each object,
and reports why its pods do not run. The command also generates deep copies, the
CustomResourceDefinition and the role of the operator.

With --resource=false or --controller=false, the files are those of kubebuilder.`
	help.Examples = `  # Run memcached. Check the pods with a command, and run a Job before an object is deleted
  bongsu-sdk create api --group cache --version v1alpha1 --kind Memcached \
    --image memcached --port 11211 --probe exec --backup

  # Check the pods over HTTP
  bongsu-sdk create api --group cache --version v1alpha1 --kind Site --image nginx --port 80 --probe http

  # Add a version of a kind, without another controller
  bongsu-sdk create api --group cache --version v1 --kind Memcached --controller=false`
}

func (c *apiCommand) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.page.Image, "image", "nginx:stable", "default image of the pods")
	fs.Int32Var(&c.page.Port, "port", 0, "port on which the container listens")
	fs.StringVar(&c.page.Probe, "probe", "", "how the operator checks the pods: exec or http. Without --port, the command of exec is true, which always passes: replace it. By default, it does not check them")
	fs.BoolVar(&c.page.Backup, "backup", false, "run a Job before an object is deleted")
}

func (c *apiCommand) InjectConfig(config config.Config) error {
	c.config = config
	return nil
}

func (c *apiCommand) InjectResource(r *resource.Resource) error {
	c.resource = r
	return nil
}

// isOurs reports whether the command makes a kind with a controller. Otherwise the files are
// kubebuilder's.
func (c *apiCommand) isOurs() bool { return c.resource.HasAPI() && c.resource.HasController() }

func (c *apiCommand) PreScaffold(fs machinery.Filesystem) (err error) {
	c.hasSuite, err = afero.Exists(fs.FS, c.suite().Path)
	return err
}

func (c *apiCommand) Scaffold(fs machinery.Filesystem) error {
	if !c.isOurs() {
		return c.improve(fs)
	}
	files := c.files()
	return writePages(fs, c.config, c.resource, files...)
}

// improve changes the files of kubebuilder's own kind or controller.
func (c *apiCommand) improve(fs machinery.Filesystem) error {
	if c.resource.HasAPI() {
		if err := edit(fs, c.types()[1].GetPath(), sampleOf...); err != nil {
			return err
		}
	}
	if !c.resource.HasController() || c.hasSuite {
		return nil
	}
	return edit(fs, c.suite().GetPath(), envtestSuite...)
}

func (c *apiCommand) suite() *page {
	return c.file("suite.tmpl", filepath.Join(c.page.controllerDir(c.config, c.resource), "suite_test.go"))
}

func (c *apiCommand) files() []machinery.Builder {
	files := append(c.types(), c.controller()...)
	if !c.hasSuite {
		files = append(files, c.suite())
	}
	return files
}

func (c *apiCommand) types() []machinery.Builder {
	kind, api := strings.ToLower(c.resource.Kind), "api"
	if c.config.IsMultiGroup() {
		api = filepath.Join(api, c.resource.Group)
	}
	return []machinery.Builder{
		c.file("types.tmpl", filepath.Join(api, c.resource.Version, kind+"_types.go")),
		c.file("sample.tmpl", filepath.Join("config", "samples", c.resource.Group+"_"+c.resource.Version+"_"+kind+".yaml")),
	}
}

func (c *apiCommand) controller() []machinery.Builder {
	kind := filepath.Join(c.page.controllerDir(c.config, c.resource), strings.ToLower(c.resource.Kind))
	return []machinery.Builder{
		c.file("controller.tmpl", kind+"_controller.go"), c.file("test.tmpl", kind+"_controller_test.go"),
		c.file("status.tmpl", kind+"_status.go"), c.file("resources.tmpl", kind+"_resources.go"),
	}
}

// file returns a file that is made from a template with the flags of the command.
func (c *apiCommand) file(template, path string) *page {
	f := c.page
	f.template, f.Path = template, path
	return &f
}

func (c *apiCommand) PostScaffold() error {
	types, controller := c.types()[0].GetPath(), c.controller()
	switch {
	case !c.resource.HasAPI():
		return c.report(next(controller[0].GetPath(), "go test ./..."))
	case !c.resource.HasController():
		return c.report(next(types, "bongsu-sdk generate"))
	default:
		return c.report(next(controller[len(controller)-1].GetPath(), "go test ./..."))
	}
}

// webhookCommand runs the tests of webhooks on the toolkit's control plane.
type webhookCommand struct {
	finish
	config   config.Config
	resource *resource.Resource
	hasSuite bool
}

func (c *webhookCommand) InjectConfig(config config.Config) error {
	c.config = config
	return nil
}

func (c *webhookCommand) InjectResource(r *resource.Resource) error {
	c.resource = r
	return nil
}

// suite is the file that starts the control plane for the tests of webhooks.
func (c *webhookCommand) suite() string {
	dir := filepath.Join("internal", "webhook")
	if c.config.IsMultiGroup() {
		dir = filepath.Join(dir, c.resource.Group)
	}
	return filepath.Join(dir, c.resource.Version, "webhook_suite_test.go")
}

func (c *webhookCommand) PreScaffold(fs machinery.Filesystem) (err error) {
	c.hasSuite, err = afero.Exists(fs.FS, c.suite())
	return err
}

// Scaffold changes a new suite. A present one was changed before.
func (c *webhookCommand) Scaffold(fs machinery.Filesystem) error {
	if c.hasSuite {
		return nil
	}
	return edit(fs, c.suite(), envtestSuite...)
}

func (c *webhookCommand) PostScaffold() error {
	return c.report("") // kubebuilder has said what to do next
}

// writePages writes files of a project, with its license.
func writePages(fs machinery.Filesystem, config config.Config, r *resource.Resource, pages ...machinery.Builder) error {
	header, err := afero.ReadFile(fs.FS, boilerplate)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return machinery.NewScaffold(fs,
		machinery.WithConfig(config), machinery.WithBoilerplate(string(header)), machinery.WithResource(r)).Execute(pages...)
}

// page is a file of a project, made from a template. The exported fields and methods are for the
// template.
type page struct {
	machinery.TemplateMixin
	machinery.MultiGroupMixin
	machinery.BoilerplateMixin
	machinery.ProjectNameMixin
	machinery.DomainMixin
	machinery.RepositoryMixin
	machinery.ResourceMixin

	template string

	// Flags of create api.
	Image, Probe string
	Port         int32
	Backup       bool
}

// SetTemplateDefaults implements machinery.Template.
func (p *page) SetTemplateDefaults() error {
	body, err := templates.ReadFile("templates/" + p.template)
	p.TemplateBody, p.IfExistsAction = string(body), machinery.OverwriteFile
	return err
}

func (page) controllerDir(config config.Config, r *resource.Resource) string {
	if config.IsMultiGroup() {
		return filepath.Join("internal", "controller", r.Group)
	}
	return filepath.Join("internal", "controller")
}

// Package is the name of the controller's package.
func (p *page) Package() string {
	if p.MultiGroup {
		return p.Resource.PackageName()
	}
	return "controller"
}

// Name is the name of the controller, which is unique in the operator.
func (p *page) Name() string {
	if p.MultiGroup {
		return strings.ToLower(p.Resource.Group + "-" + p.Resource.Kind)
	}
	return strings.ToLower(p.Resource.Kind)
}

// Var begins the names of variables that belong to the kind.
func (p *page) Var() string { return strings.ToLower(p.Resource.Kind) }

// Root is the path from the controller's package to the project, as arguments of filepath.Join.
func (p *page) Root() string {
	if p.MultiGroup {
		return `"..", "..", ".."`
	}
	return `"..", ".."`
}
