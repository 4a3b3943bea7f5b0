package scaffold

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/afero"
	"golang.org/x/tools/imports"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugins/golang/v4/scaffolds"
)

const (
	// controllerTools is the version with which the tool generates.
	controllerTools = "v0.23.0"
	// goImage is an image with the version of Go that the toolkit needs.
	goImage = "golang:1.26"
)

// edit changes a file of kubebuilder. Each change must match something.
func edit(fs machinery.Filesystem, path string, changes ...change) error {
	content, err := afero.ReadFile(fs.FS, path)
	if err != nil {
		return err
	}
	text := string(content)
	for _, c := range changes {
		if !c.from.MatchString(text) {
			return fmt.Errorf("%s contains no %q: report this as a defect of bongsu-sdk", path, c.from)
		}
		text = c.from.ReplaceAllString(text, c.to)
	}
	content = []byte(text)
	if filepath.Ext(path) == ".go" {
		if content, err = imports.Process(path, content, nil); err != nil { // removes imports
			return err
		}
	}
	return afero.WriteFile(fs.FS, path, content, os.FileMode(0o644))
}

// change replaces what a pattern matches.
type change struct {
	from *regexp.Regexp
	to   string
}

func literal(from, to string) change {
	return change{from: regexp.MustCompile(regexp.QuoteMeta(from)), to: to}
}

func lines(pattern, to string) change {
	return change{from: regexp.MustCompile("(?ms)" + pattern), to: to}
}

// makefile runs the tests without setup-envtest, and generates as the tool does.
var makefile = []change{
	literal("vet setup-envtest ## Run tests.", "vet ## Run tests."),
	lines(`^\tKUBEBUILDER_ASSETS=.*?go test`, "\tgo test"),
	lines(`^ENVTEST \?=.*?$\n`, ""),
	lines(`^#ENVTEST_VERSION is.*?^(GOLANGCI_LINT_VERSION)`, "GOLANGCI_LINT_VERSION"),
	lines(`^\.PHONY: setup-envtest$.*?^(\.PHONY: golangci-lint)$`, ".PHONY: golangci-lint"),
	lines(`^define gomodver$.*?^endef$\n`, ""),
	literal(scaffolds.ControllerToolsVersion, controllerTools),
	literal(" crd webhook ", " crd:omitToolVersion=true webhook "),
}

// mainFile lets the next leader begin at once when the operator ends.
var mainFile = []change{
	literal("// LeaderElectionReleaseOnCancel: true,", "LeaderElectionReleaseOnCancel: true,"),
}

// goVersion is for files that name an image of Go, which must not be older than go.mod demands.
var goVersion = []change{lines(`golang:1\.\d+`, goImage)}

// linters omits the one that a usual golangci-lint does not contain.
var linters = []change{
	literal("    - logcheck\n", ""),
	lines(`^    custom:\n      logcheck:\n(        [^\n]*\n)+`, ""),
}

// envtestSuite takes the binaries of the control plane from the toolkit.
var envtestSuite = []change{
	literal("\t. \"github.com/onsi/gomega\"\n", "\t. \"github.com/onsi/gomega\"\n\n\t\"github.com/bongsu-io/bongsu/pkg/localcluster\"\n"),
	lines(`^// getFirstFoundEnvTestBinaryDir locates.*\z`, `// getFirstFoundEnvTestBinaryDir returns the directory of the control plane's binaries. The first
// call of a version builds them.
func getFirstFoundEnvTestBinaryDir() string {
	dir, err := localcluster.Install(context.Background(), func(line string) { GinkgoWriter.Println(line) })
	Expect(err).NotTo(HaveOccurred())
	return dir
}
`),
}

// sampleOf is valid without a field. A spec that is null is not.
var sampleOf = []change{
	lines(`^spec:\n  # TODO\(user\): Add fields here\n`, "spec: {} # add fields here\n"),
}
