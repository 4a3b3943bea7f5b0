// Package binary builds commands for tests that run them as processes.
package binary

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Bongsu builds the command bongsu into dir and returns its path.
func Bongsu(t testing.TB, dir string) string { return build(t, dir, "bongsu") }

// Operator builds the command bongsu-operator into dir and returns its path.
func Operator(t testing.TB, dir string) string { return build(t, dir, "bongsu-operator") }

// build builds a command from the source tree of the test, so that it is never outdated.
func build(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/bongsu-io/bongsu/cmd/"+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}
