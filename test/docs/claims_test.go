package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	claimed = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")
	defined = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]*)\(`)
)

// What protects is not true because it is written.
func TestEveryTestThatSecurityNamesIsThere(t *testing.T) {
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range defined.FindAllStringSubmatch(read(t, path), -1) {
			there[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	claims := claimed.FindAllStringSubmatch(read(t, filepath.Join(root, "docs/security.md")), -1)
	for _, claim := range claims {
		if !there[claim[1]] {
			t.Errorf("docs/security.md claims %s, and there is no such test", claim[1])
		}
	}
	if len(claims) == 0 {
		t.Error("docs/security.md names no test")
	}
}
