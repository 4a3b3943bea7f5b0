package sdk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// workshop is an empty directory with the tool in PATH.
type workshop struct {
	t        *testing.T
	dir      string
	checkout string
	env      []string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	w := &workshop{t: t, dir: filepath.Join(checkout, "sdk"), checkout: checkout, env: append(os.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "BONGSU_TOOLKIT="+checkout, "BONGSU_ASSETS="+filepath.Join(checkout, "bin", "k8s"))}
	w.run("go build -o " + filepath.Join(bin, "bongsu-sdk") + " ./cmd/bongsu-sdk")
	w.run("go build -o " + filepath.Join(bin, "kubebuilder") + " sigs.k8s.io/kubebuilder/v4")
	w.dir = t.TempDir()
	return w
}

// run runs a script of the shell and returns its output.
func (w *workshop) run(script string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "sh", "-euc", script)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// commands returns the commands of a section of the docs.
func (w *workshop) commands(section string) string {
	w.t.Helper()
	page, err := os.ReadFile(filepath.Join(w.checkout, "docs", "build-your-own.md"))
	if err != nil {
		w.t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^## " + section + "$.*?^```sh\n(.*?)^```$").FindSubmatch(page)
	if block == nil {
		w.t.Fatalf("section %q has no commands", section)
	}
	return string(block[1])
}

// scaffold makes the project of the docs and changes to its directory. It returns the command that
// runs the tests of the project.
func (w *workshop) scaffold() (test string) {
	w.t.Helper()
	block := w.commands("Scaffold an operator")
	commands, arguments, found := strings.Cut(block, "go test ")
	if !found {
		w.t.Fatal("the docs run no tests")
	}
	w.run(commands)
	w.dir = filepath.Join(w.dir, "cache-operator")
	return "go test " + strings.TrimSpace(arguments)
}

func TestTheCommandsOfTheDocsMakeAnOperatorWhoseTestsPass(t *testing.T) {
	w := newWorkshop(t)
	w.run(`bongsu-sdk version | grep -x "bongsu-sdk .*" && bongsu-sdk version | grep "^sigs.k8s.io/kubebuilder/v4 v4"`)
	start := time.Now()
	test := w.scaffold()
	w.run("go build ./...")
	built := time.Since(start)
	w.run("go vet ./...")
	if changed := w.run("gofmt -l . && go mod tidy -diff"); changed != "" {
		t.Errorf("not formatted or not tidy:\n%s", changed)
	}
	t.Log(w.run(test + " -count=1"))
	lines := strings.Fields(w.run("wc -l < internal/controller/memcached_controller.go"))[0]
	modules := strings.Count(w.run("go list -m all"), "\n")
	t.Attr("summary", fmt.Sprintf("bongsu-sdk: from init to a built operator in %.0f s, a controller of %s lines, %d modules", built.Seconds(), lines, modules))

	t.Run("other commands of kubebuilder work", func(t *testing.T) {
		w.t = t
		w.run("bongsu-sdk create api --group cache --version v1alpha1 --kind Page --port 80 --probe http")
		w.run("bongsu-sdk create webhook --group cache --version v1alpha1 --kind Page --defaulting")
		w.run("sed -i 's|// TODO(user): fill in your defaulting logic.|obj.Spec.Size = nil // edited|' internal/webhook/v1alpha1/page_webhook.go")
		w.run("bongsu-sdk create webhook --group cache --version v1alpha1 --kind Page --programmatic-validation")
		w.run("grep 'obj.Spec.Size = nil // edited' internal/webhook/v1alpha1/page_webhook.go")
		w.run("bongsu-sdk edit --multigroup=false")
		w.run("! bongsu-sdk create api --group cache --version v1 --kind Memcached --controller=false")
		w.run("sed -i 's/^type Memcached struct/\\/\\/ +kubebuilder:storageversion\\n&/' api/v1alpha1/memcached_types.go")
		w.run("bongsu-sdk create api --group cache --version v1 --kind Memcached --controller=false")
		w.run("go vet ./... && go test -count=1 ./...")
	})
	t.Run("the same code makes the same image", func(t *testing.T) {
		w.t = t
		const build = "bongsu-sdk build && tar -xOf bin/image.tar index.json manifest.json"
		first, second := w.run(build), w.run(build)
		if first != second || !strings.Contains(first, `"RepoTags":["localhost/cache-operator:latest"]`) {
			t.Errorf("the first image is\n%s\nthe second is\n%s", first, second)
		}
	})
	t.Run("kubebuilder accepts the project", func(t *testing.T) {
		w.t = t
		w.run("kubebuilder create api --group cache --version v1alpha1 --kind Plain --resource --controller --make=false")
		w.run("bongsu-sdk generate")
		w.run("go vet ./...")
	})
	t.Run("a failed or interrupted command changes nothing", func(t *testing.T) {
		w.t = t
		w.run("git init -q . && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm all")
		w.run("! bongsu-sdk create api --group cache --version v1alpha1 --kind Page")
		w.run("! PATH=/usr/bin:/bin " + filepath.Join("$(dirname $(command -v bongsu-sdk))", "bongsu-sdk") + " create api --group cache --version v1alpha1 --kind Late")
		for _, signal := range []string{"INT", "TERM"} {
			w.run(`PATH=$(mktemp -d):$PATH
				printf '#!/bin/sh\ncase $1 in mod) kill -` + signal + ` $PPID ;; esac\nexec %s "$@"\n' $(command -v go) >${PATH%%:*}/go
				chmod +x ${PATH%%:*}/go
				! bongsu-sdk create api --group cache --version v1alpha1 --kind Late`)
		}
		if status := w.run("git status --porcelain"); status != "" {
			t.Errorf("changed:\n%s", status)
		}
	})
}
