// Package binary builds bongsu for tests that run it as a process of its own.
package binary

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds the command from the tree that is being tested, so that a test
// never judges an old one, into dir, and returns its path.
func Build(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "bongsu")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/bongsu-io/bongsu/cmd/bongsu")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build bongsu: %v\n%s", err, out)
	}
	return path
}
