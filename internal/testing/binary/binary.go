// Package binary builds commands for tests that run them as processes, and lists the packages
// that they link.
package binary

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	run(t, "build", "-o", path, module+"/cmd/"+name)
	return path
}

const module = "github.com/bongsu-io/bongsu"

// Packages returns the import paths of the packages that a command links. Those of this
// module are relative to its root, for example internal/cli.
func Packages(t testing.TB, name string) []string {
	t.Helper()
	packages := strings.Fields(run(t, "list", "-deps", module+"/cmd/"+name))
	for i := range packages {
		packages[i] = strings.TrimPrefix(packages[i], module+"/")
	}
	return packages
}

// run runs the go command and returns its standard output.
func run(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	// Also under the race detector, which needs cgo: the build takes what make build has cached.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &errOut)
	}
	return string(out)
}
