package sdk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sampleCommands = `bongsu-sdk init --domain example.com --repo github.com/bongsu-io/bongsu/samples/memcached-operator --license none
	bongsu-sdk create api --group cache --version v1alpha1 --kind Memcached --image memcached --port 11211 --probe exec --backup`

// byHand are the files of the sample that were written or changed after the scaffold.
var byHand = map[string]bool{
	"README.md":                                        true,
	"api/v1alpha1/memcached_types.go":                  true,
	"internal/controller/backup.sh":                    true,
	"internal/controller/memcached_controller.go":      true,
	"internal/controller/memcached_controller_test.go": true,
	"internal/controller/memcached_resources.go":       true,
	"internal/controller/memcached_status.go":          true,
	"internal/controller/memcached_test.go":            true,
	"internal/controller/probe.sh":                     true,
	// Generated from the types.
	"api/v1alpha1/zz_generated.deepcopy.go":              true,
	"config/crd/bases/cache.example.com_memcacheds.yaml": true,
	// go mod tidy removes what only the omitted tests need.
	"go.mod": true,
	"go.sum": true,
}

// omitted matches files that the sample does not need, because the CI of the repository tests it.
var omitted = regexp.MustCompile(`^(\.devcontainer/|\.dockerignore$|\.github/|Dockerfile$|test/)`)

// countLines counts the lines of Go and shell of a project that its scaffold lacks. Tests, generated
// code, blank lines and comments do not count, but markers do.
const countLines = `for dir in api cmd internal; do
		diff -rN -x '*_test.go' -x 'zz_*' %[1]s/$dir %[2]s/$dir || true
	done | sed '/^> \/\*/,/^> \*\//d' | grep '^>' | grep -Evc '^>[[:space:]]*($|#|//($|[^ ]| [^+]))'`

// The sample follows the templates: nothing differs from a new scaffold but what was written by hand.
func TestTheSampleIsAScaffoldCompletedByHand(t *testing.T) {
	w := newWorkshop(t)
	sample := filepath.Join(w.checkout, "samples", "memcached-operator")
	w.dir = filepath.Join(w.dir, "memcached-operator") // its name is that of the project
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.run(sampleCommands)
	scaffold, completed := files(t, w.dir), files(t, sample)
	differing := map[string]bool{}
	for path, content := range scaffold {
		content = strings.ReplaceAll(content, w.checkout, "../..")
		if !omitted.MatchString(path) && completed[path] != content {
			differing[path] = true
		}
	}
	for path := range completed {
		if _, found := scaffold[path]; !found || omitted.MatchString(path) {
			differing[path] = true
		}
	}
	if diff := cmp.Diff(byHand, differing); diff != "" {
		t.Errorf("files by hand (-) and files that differ from a new scaffold (+):\n%s", diff)
	}

	lines := strings.TrimSpace(w.run(fmt.Sprintf(countLines, w.dir, sample)))
	t.Attr("summary", "samples/memcached-operator: "+lines+" lines by hand")
	page, err := os.ReadFile(filepath.Join(w.checkout, "docs", "build-your-own.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "added " + lines + " lines to the scaffold"; !strings.Contains(string(page), want) {
		t.Errorf("docs/build-your-own.md does not contain %q", want)
	}
}

// files returns the files of a project by their paths.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
