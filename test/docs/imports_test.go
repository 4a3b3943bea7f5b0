package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// general are the rules of depguard that do not place a package in the layers.
var general = []string{"controlplane-is-executed-never-imported", "decisions-are-pure", "test-helpers-are-for-tests", "workers"}

// A new package must not be outside the rules for imports.
func TestEveryInternalPackageIsInARuleForImports(t *testing.T) {
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct{ Files []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, ".golangci.yaml"))), &config); err != nil {
		t.Fatal(err)
	}
	var covered []string
	for name, rule := range config.Linters.Settings.Depguard.Rules {
		if slices.Contains(general, name) {
			continue
		}
		for _, glob := range rule.Files {
			if dir, ok := strings.CutSuffix(strings.TrimPrefix(glob, "**/"), "/**"); ok && !strings.HasPrefix(glob, "!") {
				covered = append(covered, dir+"/")
			}
		}
	}
	entries, err := fs.ReadDir(os.DirFS(root), "internal")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		dir := "internal/" + entry.Name() + "/"
		if dir != "internal/testing/" && !slices.Contains(covered, dir) { // tests import everything
			t.Errorf("%s is in no rule of depguard: add it in .golangci.yaml", dir)
		}
	}
	if len(entries) < 8 {
		t.Errorf("only %d packages found", len(entries))
	}
}
