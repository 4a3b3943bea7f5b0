package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository.
var root = filepath.Join("..", "..")

// buildFor builds a command of a module for a platform, statically, and returns its path.
func buildFor(t *testing.T, module, pkg, platform string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "binary")
	system, architecture, _ := strings.Cut(platform, "/")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", path, pkg)
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+system, "GOARCH="+architecture)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s for %s: %v\n%s", pkg, platform, err, out)
	}
	return path
}

// copyTree copies the repository's files, without what is built or hidden.
func copyTree(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		from, to := filepath.Join(root, entry.Name()), filepath.Join(to, entry.Name())
		switch {
		case entry.Name() == "bin", strings.HasPrefix(entry.Name(), "."):
			continue
		case entry.IsDir():
			err = os.CopyFS(to, os.DirFS(from))
		default:
			err = copyFile(from, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
