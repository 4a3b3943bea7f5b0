package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	requirement  = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`) // what is indirect says so behind
	majorVersion = regexp.MustCompile(`/v[0-9]+$`)
	row          = regexp.MustCompile(`(?m)^\| ([a-z0-9]+\.[^|]*) \|`)
)

func TestEveryDependencyIsExplained(t *testing.T) {
	var want, got []string
	for _, m := range requirement.FindAllStringSubmatch(read(t, filepath.Join(root, "go.mod")), -1) {
		want = append(want, majorVersion.ReplaceAllString(m[1], ""))
	}
	_, table, _ := strings.Cut(read(t, filepath.Join(root, "CONTRIBUTING.md")), "\n## Dependencies\n")
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		got = append(got, strings.Split(m[1], ", ")...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("go.mod (-) and CONTRIBUTING.md (+):\n%s", diff)
	}
}
