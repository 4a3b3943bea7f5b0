package scaffold

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestCommandsOfOperatorSDKAreAnsweredWithTodays(t *testing.T) {
	const isFormer = "is a command of operator-sdk: "
	for commandLine, want := range map[string]string{
		"new memcached-operator --repo=github.com/example/memcached-operator": `"new" ` + isFormer + `run mkdir memcached-operator && cd memcached-operator && bongsu-sdk init --domain example.com --repo github.com/example/memcached-operator`,
		"new $(id) --repo $(id)":                                          `run mkdir cache-operator && cd cache-operator && bongsu-sdk init --domain example.com --repo github.com/me/cache-operator`,
		"new nginx-operator --type=ansible":                               "operators in Go only. For others, use operator-sdk init --plugins ansible",
		"add api --api-version=app.example.com/v1 --kind=AppService":      `"add api" ` + isFormer + "group and version are flags, and init sets the domain: run bongsu-sdk create api --group app --version v1 --kind AppService",
		"add api --kind AppService --api-version app.example.com/v1beta1": "run bongsu-sdk create api --group app --version v1beta1 --kind AppService",
		"add api":                              "run bongsu-sdk create api --group cache --version v1alpha1 --kind Memcached",
		"add api --api-version=;id --kind=;id": "run bongsu-sdk create api --group cache --version v1alpha1 --kind Memcached",
		"add controller --api-version=cache.example.com/v1alpha1 --kind=Cache": "create api creates the controller too: run bongsu-sdk create api --group cache --version v1alpha1 --kind Cache",
		"add":                                             "run bongsu-sdk create api --help",
		"generate k8s":                                    "run bongsu-sdk generate",
		"generate crds --crd-version v1":                  "run bongsu-sdk generate",
		"generate openapi":                                "run bongsu-sdk generate",
		"generate csv --csv-version 0.0.1":                "nothing for OLM",
		"up local --namespace=default":                    `"up" ` + isFormer + "the operator runs on a control plane on this machine: run bongsu-sdk run",
		"run local --watch-namespace=default":             "run bongsu-sdk run",
		"run --local --namespace=default":                 "run bongsu-sdk run",
		"build quay.io/example/memcached-operator:v0.0.1": "the image is a flag: run bongsu-sdk build --image quay.io/example/memcached-operator:v0.0.1",
		"build ;id":                                       "run bongsu-sdk build --image registry.example.com/operator:v1",
		"olm-catalog gen-csv --csv-version 0.0.1":         "run make deploy IMG=",
		"bundle validate ./bundle":                        "nothing for OLM",
		"scorecard ./bundle":                              "nothing for OLM",
		"test local ./test/e2e":                           "run go test ./...",
		"new --help":                                      "bongsu-sdk init",
	} {
		t.Run(commandLine, func(t *testing.T) {
			newProject(t)
			before := present(t)
			err := run(t, commandLine)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), isFormer) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got the error %v, want %s", err, want)
			}
			wantUnchanged(t, before)
		})
	}
}

// code matches code in a page.
var code = regexp.MustCompile("`([^`]+)`")

func TestThePageForUsersOfOperatorSDKNamesCommandsThatExist(t *testing.T) {
	newProject(t)
	if err := run(t, initCommandLine+" --project-name cache-operator"); err != nil {
		t.Fatal(err)
	}
	page, makefile := read(t, movingPath), read(t, "Makefile")
	today, old := 0, 0
	for _, found := range code.FindAllStringSubmatch(page, -1) {
		words := strings.Fields(found[1])
		switch words[0] {
		case "bongsu-sdk":
			if len(words) > 1 {
				today++
				checkCommand(t, words[1:])
			}
		case "operator-sdk":
			old++
			err := answerFormer(words[1:])
			if err == nil {
				t.Errorf("%s is not answered", found[1])
				continue
			}
			if _, command, found := strings.Cut(err.Error(), "bongsu-sdk "); found && !strings.HasPrefix(command, "makes ") {
				checkCommand(t, strings.Fields(command))
			}
		case "make":
			if !strings.Contains(makefile, "\n"+words[1]+":") {
				t.Errorf("the Makefile has no target %s", words[1])
			}
		}
	}
	if today < 10 || old < 15 {
		t.Errorf("the page names %d commands of the tool and %d of operator-sdk:\n%s", today, old, page)
	}
	if readme := read(t, "README.md"); !strings.Contains(readme, "]("+movingPath+")") {
		t.Error("the README does not link to the page")
	}
}

// checkCommand checks that a command line of the tool is valid: its command runs, and has its flags.
func checkCommand(t *testing.T, args []string) {
	t.Helper()
	root, err := newCommand(newPlugin(t.Context(), "", &files{dir: "."}, t.Output()))
	if err != nil {
		t.Fatal(err)
	}
	command, rest, err := root.Find(args)
	if err != nil || command == root || !command.Runnable() {
		t.Errorf("there is no command bongsu-sdk %s: %v", strings.Join(args, " "), err)
		return
	}
	if err := command.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "help requested") {
		t.Errorf("bongsu-sdk %s: %v", strings.Join(args, " "), err)
	}
	if err := argumentsOf(command); err != nil {
		t.Errorf("bongsu-sdk %s: %v", strings.Join(args, " "), err)
	}
}

func argumentsOf(c *cobra.Command) error { return c.ValidateArgs(c.Flags().Args()) }
