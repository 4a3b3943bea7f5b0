package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const cgroupRoot = "/sys/fs/cgroup"

// unified reports whether the machine has cgroups version 2, with one hierarchy, rather
// than version 1, with one hierarchy for each controller.
func unified() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// hierarchies returns the root of each hierarchy.
func hierarchies() ([]string, error) {
	if unified() {
		return []string{cgroupRoot}, nil
	}
	return filepath.Glob(filepath.Join(cgroupRoot, "*"))
}

// makeCgroups creates a cgroup in each hierarchy. The kubelet requires it.
func makeCgroups(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := inherit(root, dir); err != nil {
			return err
		}
	}
	return nil
}

// inherit copies the CPUs and memory nodes of the parent to a cgroup. In version 1 a new
// cgroup has none, and no process can join it.
func inherit(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// cgroupPatience is the time limit for the kernel to remove killed processes from cgroups.
const cgroupPatience = 30 * time.Second

// removeCgroups removes all cgroups that match a pattern, with their children, as soon as
// they contain no process.
func removeCgroups(pattern string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	var all []string
	for _, root := range roots {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	var last error
	_ = wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, cgroupPatience, true, func(context.Context) (bool, error) {
		last = nil
		for _, dir := range all {
			last = errors.Join(last, removeCgroup(dir))
		}
		return last == nil, nil
	})
	return last
}

// removeCgroup removes a cgroup after its children. The files in it cannot be removed; they
// disappear with it.
func removeCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
