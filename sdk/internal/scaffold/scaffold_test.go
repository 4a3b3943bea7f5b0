package scaffold

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

// newProject changes to an empty directory with a go command that changes nothing and lists no
// packages. It returns a function that makes a command of it fail, such as get.
func newProject(t *testing.T) (fail func(command string)) {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(t.TempDir(), "go")
	fail = func(command string) {
		write(t, fake, "#!/bin/sh\ncase \"$*\" in version*|env*|list*unsafe) exec '"+path+"' \"$@\" ;; '"+command+"'*) echo the disk is full; exit 3 ;; esac\n")
	}
	fail("nothing")
	t.Setenv("PATH", filepath.Dir(fake))
	t.Chdir(t.TempDir())
	return fail
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func run(t *testing.T, commandLine string) error {
	t.Helper()
	return Run(t.Context(), strings.Fields(commandLine), "", t.Output())
}

// printed returns what a command prints.
func printed(t *testing.T, commandLine string) string {
	t.Helper()
	var out strings.Builder
	if err := Run(t.Context(), strings.Fields(commandLine), "", &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const initCommandLine = "init --domain example.com --repo github.com/me/cache-operator"

// project is the file PROJECT of a project with two kinds. Only Existing has a controller.
const project = `domain: example.com
layout:
- go.kubebuilder.io/v4
projectName: cache-operator
repo: github.com/me/cache-operator
resources:
- api:
    crdVersion: v1
    namespaced: true
  controller: true
  domain: example.com
  group: cache
  kind: Existing
  path: github.com/me/cache-operator/api/v1
  version: v1
- api:
    crdVersion: v1
    namespaced: true
  domain: example.com
  group: cache
  kind: Types
  path: github.com/me/cache-operator/api/v1
  version: v1
version: "3"
`

func TestInitMakesAProjectThatKubebuilderAccepts(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	project := read(t, "PROJECT")
	for _, want := range []string{"domain: example.com\n", "layout:\n- go.kubebuilder.io/v4\n", "repo: github.com/me/cache-operator\n"} {
		if !strings.Contains(project, want) {
			t.Errorf("PROJECT has no %q:\n%s", want, project)
		}
	}
	if makefile := read(t, "Makefile"); strings.Contains(strings.ToLower(makefile), "envtest") || !strings.Contains(makefile, "\tgo test $$(go list") {
		t.Error("the Makefile uses setup-envtest:\n" + makefile)
	}
	for _, marker := range []string{"imports", "scheme", "builder"} {
		if !strings.Contains(read(t, "cmd/main.go"), "// +kubebuilder:scaffold:"+marker+"\n") {
			t.Error("cmd/main.go lost the marker " + marker)
		}
	}
	if !strings.Contains(read(t, "config/manager/manager.yaml"), "--leader-elect\n") {
		t.Error("the Deployment of the operator elects no leader")
	}
}

func TestTheReadmeNamesCommandsThatExist(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine+" --project-name cache-operator"); err != nil {
		t.Fatal(err)
	}
	readme, makefile := read(t, "README.md"), read(t, "Makefile")
	for _, want := range []string{"# cache-operator\n", "bongsu-sdk run ", "bongsu-sdk generate ", "bongsu-sdk build --image registry.example.com/cache-operator:v1 "} {
		if !strings.Contains(readme, want) {
			t.Errorf("the README has no %q:\n%s", want, readme)
		}
	}
	targets := regexp.MustCompile("make ([a-z-]+)").FindAllStringSubmatch(readme, -1)
	for _, target := range targets {
		if !strings.Contains(makefile, "\n"+target[1]+":") {
			t.Errorf("the Makefile has no target %s", target[1])
		}
	}
	if len(targets) < 4 {
		t.Errorf("the README names the targets %v", targets)
	}
}

func TestTheMakefileGeneratesWithTheVersionOfTheTool(t *testing.T) {
	if !strings.Contains(read(t, "../../go.mod"), "\tsigs.k8s.io/controller-tools "+controllerTools+"\n") {
		t.Error("go.mod has another version of controller-tools than " + controllerTools)
	}
}

func TestAFailedInitLeavesTheDirectoryEmpty(t *testing.T) {
	newProject(t)("get")
	if err := run(t, initCommandLine); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got the error %v", err)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v %v", entries, err)
	}
}

func TestAFailedCommandRestoresTheProject(t *testing.T) {
	fail := newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	before := present(t)
	fail("mod") // which runs when the files are written
	err := run(t, "create api --group cache --version v1alpha1 --kind Memcached")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("got the error %v", err)
	}
	wantUnchanged(t, before)
}

func TestAnInterruptedCommandRestoresTheProject(t *testing.T) {
	fail := newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	before := present(t)
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGUSR1)
	defer stop()
	fail("mod'*) kill -USR1 $PPID; exit 0 ;; 'other")
	err := Run(ctx, strings.Fields("create api --group cache --version v1alpha1 --kind Memcached"), "", t.Output())
	if err == nil || err.Error() != "interrupted" {
		t.Errorf("got the error %v", err)
	}
	wantUnchanged(t, before)
}

func TestMistakesAreFoundBeforeAnythingIsWritten(t *testing.T) {
	const api = "create api --group cache --version v1alpha1 --kind Memcached "
	for commandLine, want := range map[string]string{
		"init --domain Example --repo github.com/me/x":                                   `invalid domain "Example"`,
		"init --domain example.com":                                                      "no repo: set --repo",
		initCommandLine + " --license gpl":                                               `unknown license "gpl": use apache2 or none`,
		"create api --version v1 --kind Memcached":                                       "no group: set --group, for example to cache",
		"create api --group cache --version v1 --kind M" + strings.Repeat("m", 63):       "has 64 characters: use at most 63",
		"init --domain example.com --repo https://x.com/y":                               `invalid repo "https://x.com/y"`,
		initCommandLine + " --toolkit ./x":                                               "is not a checkout of",
		initCommandLine + " --owner */":                                                  "invalid owner",
		initCommandLine + " now":                                                         `unexpected argument "now"`,
		"create api --group Cache --version v1 --kind Memcached":                         `invalid group "Cache"`,
		"create api --group cache --version 1 --kind Memcached":                          `invalid version "1"`,
		"create api --group cache --version v1 --kind memcached":                         `invalid kind "memcached"`,
		"create api --group cache --version v1 --kind Mem-cached":                        `invalid kind "Mem-cached"`,
		"create api --group apps --version v1 --kind Memcached":                          "use another group or version",
		"create api --group cache --version v1 --kind Map":                               `"map" is a keyword of Go`,
		api + "--probe tcp":                                                              `unknown probe "tcp"`,
		api + "--probe http":                                                             "an HTTP probe needs a port",
		api + "--port 70000":                                                             "invalid port 70000",
		api + "--image :1":                                                               `invalid image ":1"`,
		api + "--namespaced=false":                                                       "omit --namespaced=false",
		api + "--plural Caches":                                                          `invalid plural "Caches"`,
		api + "--controller=false --probe exec":                                          "--probe is for types with a controller",
		api + "--resource=false --controller=false":                                      "nothing to create: omit --resource=false or --controller=false",
		api + "--resource=false --backup":                                                "--backup is for types with a controller",
		api + "--force":                                                                  "omit --force",
		"create webhook --group cache --version v1 --kind Existing --defaulting --force": "omit --force",
		"create api --group cache --version v1 --kind Existing":                          "the project has cache/v1 Existing: choose another kind or version",
		"create api --group cache --version v1 --kind Types":                             "the project has the types of cache/v1 Types: to create a controller, set --resource=false",
		"create api --group other --version v1 --kind Memcached":                         "run bongsu-sdk edit --multigroup",
		initCommandLine + " --project-name Bad_Name":                                     `invalid project name "Bad_Name": set --project-name`,
		"create api now --nope":                                                          `unexpected argument "now"`,
		"create foo --group x":                                                           `unknown command "foo": see bongsu-sdk create --help`,
		"create --nope":                                                                  "unknown flag: --nope",
		"foo":                                                                            `unknown command "foo"`,
		"--nope":                                                                         "unknown flag: --nope",
		"version now":                                                                    `unexpected argument "now"`,
		"generate now":                                                                   `unexpected argument "now"`,
		"run --metrics-secure=false":                                                     "unknown flag: --metrics-secure: write the flags of the operator after --",
		"run now -- --some-flag":                                                         `unexpected argument "now": write the flags of the operator after --`,
		"alpha generate":                                                                 `unknown command "alpha"`,
		"run -- --some-flag":                                                             "contains no cmd/local: copy it from a new project",
	} {
		t.Run(commandLine, func(t *testing.T) {
			newProject(t)
			files := 0
			if !strings.HasPrefix(commandLine, "init") {
				write(t, "PROJECT", project)
				files = 1
			}
			if err := run(t, commandLine); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got the error %v, want %s", err, want)
			}
			if entries, err := os.ReadDir("."); err != nil || len(entries) != files {
				t.Errorf("there are %v %v", entries, err)
			}
		})
	}
}

func TestCreatePrintsWhatItHasWrittenAndWhatToDoNext(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{ // in this order: the first group is that of the project
		{
			"create api --group cache --version v1 --kind Memcached",
			"Created internal/controller/memcached_resources.go\n", "Created internal/controller/memcached_status.go\n",
			"Changed PROJECT\n", "Next: edit internal/controller/memcached_resources.go, and run:\n$ go test ./...\n",
		},
		{
			"create api --group cache --version v1 --kind Types --controller=false",
			"Created api/v1/types_types.go\n", "Next: edit api/v1/types_types.go, and run:\n$ bongsu-sdk generate\n",
		},
		{
			"create api --group apps --version v1 --kind Deployment --resource=false",
			"Created internal/controller/deployment_controller.go\n", "Next: edit internal/controller/deployment_controller.go, and run:\n$ go test ./...\n",
		},
	} {
		commandLine := command[0]
		got := printed(t, commandLine)
		for _, text := range command[1:] {
			if !strings.Contains(got, text) {
				t.Errorf("%s prints no %q:\n%s", commandLine, text, got)
			}
		}
	}
	if got := printed(t, "create webhook --group cache --version v1 --kind Memcached --defaulting"); !strings.Contains(got, "Created internal/webhook/v1/memcached_webhook.go\n") {
		t.Errorf("create webhook prints\n%s", got)
	}
}

func TestAnotherWebhookOfAKindKeepsTheCodeOfTheFirst(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	const webhook = "create webhook --group cache --version v1 --kind Memcached "
	for _, command := range []string{"create api --group cache --version v1 --kind Memcached", webhook + "--defaulting"} {
		if err := run(t, command); err != nil {
			t.Fatal(err)
		}
	}
	const path, edited = "internal/webhook/v1/memcached_webhook.go", "object.Spec.Image = mine // edited"
	write(t, path, strings.Replace(read(t, path), "// TODO(user): fill in your defaulting logic.", edited, 1))
	suite := read(t, "internal/webhook/v1/webhook_suite_test.go")
	const types = "api/v1/memcached_types.go"
	write(t, types, strings.Replace(read(t, types), "// +kubebuilder:subresource:status\n", "// +kubebuilder:subresource:status\n// +kubebuilder:storageversion\n", 1))
	for _, command := range []string{
		webhook + "--programmatic-validation", "create api --group cache --version v1beta1 --kind Memcached --controller=false", webhook + "--conversion --spoke v1beta1",
	} {
		if err := run(t, command); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{edited, "WithDefaulter(", "WithValidator(", ") ValidateUpdate("} {
			if file := read(t, path); strings.Count(file, want) != 1 {
				t.Errorf("after %s, the file does not contain %q once:\n%s", command, want, file)
			}
		}
	}
	if read(t, "internal/webhook/v1/webhook_suite_test.go") != suite {
		t.Error("the suite was changed")
	}
	if spoke := read(t, "api/v1beta1/memcached_conversion.go"); !strings.Contains(spoke, ") ConvertTo(") {
		t.Errorf("the older version is not converted:\n%s", spoke)
	}
	wantRefused(t, webhook+"--defaulting", "defaulting webhook already exists")
}

func TestFlagsThatTheToolDoesNotFitAreRefused(t *testing.T) {
	newProject(t)
	wantRefused(t, initCommandLine+" --namespaced", "does not support --namespaced: omit it")
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	for command, flags := range map[string][]string{
		"create api --group cache --version v1 --kind Memcached": {"--ssa", "--controller-name=other"},
		"edit --multigroup": {"--namespaced", "--force", "--license=none", "--owner=me"},
	} {
		for _, flag := range flags {
			name, _, _ := strings.Cut(flag, "=")
			wantRefused(t, command+" "+flag, "does not support "+name+": omit it")
		}
	}
}

func TestAProjectContainsNothingThatDoesNotFitTheTool(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	for path := range present(t) {
		if base := filepath.Base(path); base == "AGENTS.md" || base == ".custom-gcl.yml" {
			t.Errorf("the project contains %s", path)
		}
	}
	if linters := read(t, ".golangci.yml"); strings.Contains(linters, "logcheck") || strings.Contains(linters, "custom:") {
		t.Errorf("a usual golangci-lint has no such linter:\n%s", linters)
	}
}

func TestTheHelpIsThatOfTheTool(t *testing.T) {
	newProject(t)
	for commandLine, want := range map[string]string{
		"--help": "bongsu-sdk create api --group cache", "init --help": "bongsu-sdk init --domain example.com",
		"create api --help": "--probe exec --backup", "create webhook --help": "bongsu-sdk create webhook",
	} {
		help := printed(t, commandLine)
		if !strings.Contains(help, want) {
			t.Errorf("%s does not contain %q:\n%s", commandLine, want, help)
		}
		for _, other := range []string{"prompt", "make generate", "--make", "--force", "--plugins", "frigate/", "--ssa", "--controller-name"} {
			if strings.Contains(help, other) {
				t.Errorf("%s contains %q:\n%s", commandLine, other, help)
			}
		}
	}
}

func TestCreateNeedsTheMarkersOfKubebuilder(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	const api, webhook = "create api --group cache --version v1 --kind Memcached", "create webhook --group cache --version v1 --kind Memcached --defaulting"
	crds := filepath.Join("config", "crd", "kustomization.yaml")
	if err := os.MkdirAll(filepath.Dir(crds), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, crds, "resources: []\n")
	wantRefused(t, api, "config/crd/kustomization.yaml lacks lines", "\n# +kubebuilder:scaffold:crdkustomizeresource")
	if err := run(t, webhook); err == nil || strings.Contains(err.Error(), "lacks lines") {
		t.Errorf("a webhook needs no line in %s: %v", crds, err)
	}
	write(t, mainPath, strings.ReplaceAll(read(t, mainPath), "// +kubebuilder:scaffold:scheme\n", "\n"))
	for _, command := range []string{api, webhook} {
		wantRefused(t, command, "cmd/main.go lacks lines", "has them:\n// +kubebuilder:scaffold:scheme")
	}
}

// wantRefused runs a command whose error must contain texts. It must not change the project.
func wantRefused(t *testing.T, commandLine string, texts ...string) {
	t.Helper()
	before := present(t)
	err := run(t, commandLine)
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got the error %v, want %s", commandLine, err, text)
		}
	}
	wantUnchanged(t, before)
}

func TestCommandsNeedAProject(t *testing.T) {
	newTypes(t)
	if err := os.Remove("PROJECT"); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"create api --group cache --version v1 --kind Memcached", "create webhook --group cache --version v1 --kind Memcached --defaulting",
		"edit --multigroup", "generate", "run", "build", "build --image a:1",
	} {
		wantRefused(t, command, "contains no file PROJECT: change to the directory of a project")
	}
}

func TestInitNeedsADirectoryWhoseNameIsThatOfAProject(t *testing.T) {
	newProject(t)
	if err := os.Mkdir("Bad_Dir", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir("Bad_Dir")
	wantRefused(t, initCommandLine, `invalid project name "bad_dir": set --project-name`)
}

func TestInitNeedsAnEmptyDirectoryAndGo(t *testing.T) {
	newProject(t)
	write(t, "notes.txt", "mine")
	if err := run(t, initCommandLine); err == nil || !strings.Contains(err.Error(), "contains notes.txt") {
		t.Errorf("in a directory with a file: got the error %v", err)
	}
	if read(t, "notes.txt") != "mine" {
		t.Error("the file was changed")
	}
	newProject(t)
	t.Setenv("PATH", t.TempDir())
	if err := run(t, initCommandLine); err == nil || !strings.Contains(err.Error(), "go is not in PATH") {
		t.Errorf("without Go: got the error %v", err)
	}
}

func TestEachCommandOfAProjectNeedsGo(t *testing.T) {
	newTypes(t)
	if err := os.MkdirAll(local, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, command := range []string{"generate", "run", "build", "build --image a:1", "edit --multigroup", "create api --group cache --version v1 --kind Other"} {
		wantRefused(t, command, "go is not in PATH: install Go")
	}
}

func TestEditNeedsAFlag(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	if err := run(t, "edit --multigroup"); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "edit", "nothing to edit: set --multigroup or --multigroup=false")
	if !strings.Contains(read(t, "PROJECT"), "multigroup: true\n") {
		t.Error("the project has one group only")
	}
}

func TestFilesOfKubebuilderWorkWithTheToolkit(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"create api --group cache --version v1 --kind Types --controller=false", "create api --group apps --version v1 --kind Deployment --resource=false",
	} {
		if err := run(t, command); err != nil {
			t.Fatal(err)
		}
	}
	if sample := read(t, "config/samples/cache_v1_types.yaml"); !strings.HasSuffix(sample, "\nspec: {} # add fields here\n") {
		t.Errorf("the API server refuses the spec of the sample:\n%s", sample)
	}
	if suite := read(t, "internal/controller/suite_test.go"); !strings.Contains(suite, "localcluster.Install(") || strings.Contains(suite, "setup-envtest") {
		t.Errorf("the suite needs binaries that the project does not have:\n%s", suite)
	}
}

func TestCreateAPIOverwritesNoFile(t *testing.T) {
	newProject(t)
	write(t, "PROJECT", project)
	if err := os.MkdirAll("internal/controller", 0o700); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "create api --group apps --version v1 --kind Deployment --resource=false", "cmd/main.go") // only this is wrong
	for _, file := range []string{"controller", "controller_test", "resources", "status"} {
		path := "internal/controller/other_" + file + ".go"
		write(t, path, "package controller")
		wantRefused(t, "create api --group cache --version v1 --kind Other", path+" exists: set --resource=false or --controller=false")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// license stands for the header of each file, whose length counts.
var license = "/*\n" + strings.Repeat("A line of the license.\n", 13) + "*/"

func TestEachFileOfAKindIsFormattedAndUsesItsImports(t *testing.T) {
	for _, probe := range []string{"", "exec", "http"} {
		for _, backup := range []bool{false, true} {
			for _, multigroup := range []bool{false, true} {
				c := &apiCommand{page: page{Image: "memcached", Port: 11211, Probe: probe, Backup: backup}}
				t.Run(fmt.Sprintf("%s %t %t", probe, backup, multigroup), func(t *testing.T) { checkFiles(t, c, multigroup) })
			}
		}
	}
}

func checkFiles(t *testing.T, c *apiCommand, multigroup bool) {
	c.config = cfgv3.New()
	c.resource = &resource.Resource{
		GVK: resource.GVK{Group: "cache", Domain: "example.com", Version: "v1alpha1", Kind: "Memcached"}, Plural: "memcacheds",
		Path: "github.com/me/cache-operator/api/v1alpha1", API: &resource.API{CRDVersion: "v1", Namespaced: true}, Controller: true,
	}
	if multigroup {
		if err := c.config.SetMultiGroup(); err != nil {
			t.Fatal(err)
		}
	}
	fs := machinery.Filesystem{FS: afero.NewMemMapFs()}
	if err := afero.WriteFile(fs.FS, boilerplate, []byte(license), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePages(fs, c.config, c.resource, c.files()...); err != nil {
		t.Fatal(err)
	}
	count := 0
	err := afero.Walk(fs.FS, ".", func(name string, _ os.FileInfo, err error) error {
		if err != nil || path.Ext(name) != ".go" {
			return err
		}
		count++
		content, err := afero.ReadFile(fs.FS, name)
		if err != nil {
			return err
		}
		checkFile(t, name, content)
		return nil
	})
	if err != nil || count != 6 {
		t.Errorf("%d files: %v", count, err)
	}
}

func checkFile(t *testing.T, name string, content []byte) {
	t.Helper()
	if formatted, err := format.Source(content); err != nil || string(formatted) != string(content) {
		t.Errorf("%s is not formatted: %v", name, err)
	}
	if n := strings.Count(string(content), "\n"); strings.HasSuffix(name, "_controller.go") && n > 120 {
		t.Errorf("%s has %d lines", name, n)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, content, 0)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	for _, i := range file.Imports {
		importPath, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		imported := path.Base(importPath)
		if i.Name != nil {
			imported = i.Name.Name
		} else if imported == "controller-runtime" {
			imported = "ctrl"
		}
		if imported != "." && !used[imported] {
			t.Errorf("%s does not use %s", name, importPath)
		}
	}
}
