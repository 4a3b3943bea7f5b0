package scaffold

import (
	"fmt"
	"slices"
	"strings"
)

// former are command lines of operator-sdk before its version 1, and of its parts for OLM. Each is
// answered in one line. The first that fits counts.
var former = []struct {
	words  string
	answer func(args arguments) string
}{
	{"new", formerNew},
	{"add api", formerAPI},
	{"add controller", formerController},
	{"add crd", always("generate makes the CustomResourceDefinitions from the types: run bongsu-sdk generate")},
	{"add", always("APIs and their controllers are created together: run bongsu-sdk create api --help")},
	{"generate k8s", formerGenerate},
	{"generate crds", formerGenerate},
	{"generate openapi", formerGenerate},
	{"generate csv", noOLM},
	{"generate kustomize", noOLM},
	{"generate bundle", noOLM},
	{"generate packagemanifests", noOLM},
	{"up", formerRun},
	{"run local", formerRun},
	{"run --local", formerRun},
	{"run --olm", noOLM},
	{"run bundle", noOLM},
	{"run packagemanifests", noOLM},
	{"build", formerBuild},
	{"test", always("the tests of a project need no cluster: run go test ./...")},
	{"print-deps", always("the dependencies are in go.mod: run go list -m all")},
	{"migrate", always("bongsu-sdk makes operators in Go only: see bongsu-sdk init --help")},
	{"cleanup", always("the Makefile removes the operator: run make undeploy")},
	{"olm-catalog", noOLM},
	{"olm", noOLM},
	{"bundle", noOLM},
	{"scorecard", noOLM},
}

// answerFormer returns an error that says what to run today, if the command line is a former one.
func answerFormer(args []string) error {
	for _, f := range former {
		words := strings.Fields(f.words)
		if len(args) < len(words) || !slices.Equal(args[:len(words)], words) {
			continue
		}
		if answer := f.answer(args[len(words):]); answer != "" {
			return fmt.Errorf("%q is a command of operator-sdk: %s", f.words, answer)
		}
	}
	return nil
}

func always(answer string) func(arguments) string {
	return func(arguments) string { return answer }
}

var (
	formerGenerate = always("generate has no parts: run bongsu-sdk generate")
	formerRun      = always("the operator runs on a control plane on this machine: run bongsu-sdk run")
	noOLM          = always("bongsu-sdk makes nothing for OLM. To install the operator without OLM, run make deploy IMG=registry.example.com/operator:v1")
)

// arguments follow the words of a former command.
type arguments []string

// flag returns the value of a flag, or "" if it is not set.
func (a arguments) flag(name string) string {
	for i, arg := range a {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
		if arg == "--"+name && i+1 < len(a) {
			return a[i+1]
		}
	}
	return ""
}

// first returns the first argument if it is no flag.
func (a arguments) first() string {
	if len(a) == 0 || strings.HasPrefix(a[0], "-") {
		return ""
	}
	return a[0]
}

// or returns the value if it is valid, and otherwise the default. Only valid values are repeated to
// the user, who may copy them to a shell.
func or(value, byDefault string, valid func(string) bool) string {
	if !valid(value) {
		return byDefault
	}
	return value
}

func formerNew(args arguments) string {
	if kind := args.flag("type"); kind == "ansible" || kind == "helm" {
		return "bongsu-sdk makes operators in Go only. For others, use operator-sdk init --plugins " + kind
	}
	name := or(args.first(), "cache-operator", projectName.MatchString)
	repo := or(args.flag("repo"), "github.com/me/"+name, imageName.MatchString)
	return fmt.Sprintf("run mkdir %s && cd %s && bongsu-sdk init --domain example.com --repo %s", name, name, repo)
}

// createAPI returns the command for the kind of the flags --api-version and --kind.
func createAPI(args arguments) string {
	groupDomain, version, _ := strings.Cut(args.flag("api-version"), "/")
	group, _, _ := strings.Cut(groupDomain, ".")
	return fmt.Sprintf("bongsu-sdk create api --group %s --version %s --kind %s", or(group, "cache", groupName.MatchString),
		or(version, "v1alpha1", apiVersion.MatchString), or(args.flag("kind"), "Memcached", kindName.MatchString))
}

func formerAPI(args arguments) string {
	return "group and version are flags, and init sets the domain: run " + createAPI(args)
}

func formerController(args arguments) string {
	return "create api creates the controller too: run " + createAPI(args)
}

// formerBuild answers an image that is no flag.
func formerBuild(args arguments) string {
	image := args.first()
	if image == "" {
		return ""
	}
	return "the image is a flag: run bongsu-sdk build --image " + or(image, "registry.example.com/operator:v1", imageName.MatchString)
}
