package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tree is a copy of the checkout that may be broken.
type tree struct {
	dir string
	env []string // of what runs in it
}

// copyTree copies what git tracks, as it is in the working directory, and new
// files that it does not ignore. The binaries of the control plane stay where
// they are; the tests are told where.
func copyTree(ctx context.Context, root string) (tree, error) {
	files, err := listFiles(ctx, root)
	if err != nil {
		return tree{}, err
	}
	dir, err := os.MkdirTemp("", "bongsu-mutants-")
	if err != nil {
		return tree{}, err
	}
	t := tree{dir: dir, env: append(os.Environ(),
		"BONGSU_ASSETS="+filepath.Join(root, "bin", "k8s"),
		// Git must not take the copy for a part of a repository around it.
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
	)}
	for _, file := range files {
		err := copyFile(filepath.Join(root, file), filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and git not told yet
		}
		if err != nil {
			t.remove()
			return tree{}, err
		}
	}
	return t, nil
}

func listFiles(ctx context.Context, root string) ([]string, error) {
	git := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the checkout: %w", err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"), nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

func (t tree) remove() { _ = os.RemoveAll(t.dir) }

// patchError carries what git said, which names file and line.
type patchError struct{ said string }

func (e patchError) Error() string { return "the patch does not apply: " + e.said }

func (t tree) applies(ctx context.Context, patch string) error {
	return t.git(ctx, "--check", patch)
}

func (t tree) apply(ctx context.Context, patch string) error {
	return t.git(ctx, patch)
}

func (t tree) revert(ctx context.Context, patch string) error {
	return t.git(ctx, "--reverse", patch)
}

func (t tree) git(ctx context.Context, args ...string) error {
	git := t.command(ctx, "git", append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	said, err := git.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return patchError{said: string(bytes.TrimSpace(said))}
	}
	return nil
}

func (t tree) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = t.dir, t.env
	// A test that has started processes gets the chance to stop them.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	return cmd
}
