package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bongsu-io/bongsu/config"
	"github.com/bongsu-io/bongsu/internal/cli/install"
	"github.com/bongsu-io/bongsu/internal/feature"
	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// template returns the directory of a stopped cluster with the manifests installed. Tests
// start from a copy of it, because installing takes most of the CPU time of a start. The
// first process that needs it creates it, beside the binaries of the control plane. A
// change of the manifests or of the control plane creates another one.
func template(ctx context.Context, assets string) (string, error) {
	name, err := templateName(assets)
	if err != nil {
		return "", err
	}
	unlock, err := lock(assets, "template")
	if err != nil {
		return "", err
	}
	defer unlock()
	root := shareDir(assets)
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	partial := filepath.Join(root, "partial")
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := removeOldTemplates(root); err != nil {
		return "", err
	}
	if err := makeTemplate(ctx, assets, partial); err != nil {
		return "", err
	}
	return dir, os.Rename(partial, dir)
}

// shareDir is the directory that the test processes of a checkout share, beside the binaries of the
// control plane.
func shareDir(assets string) string { return filepath.Join(filepath.Dir(assets), "testclusters") }

// lock waits until no other test, of any process of this checkout, has this lock.
func lock(assets, name string) (unlock func(), err error) {
	if err := os.MkdirAll(shareDir(assets), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(shareDir(assets), name+".lock"), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// keptTemplates is the number of earlier templates that are kept, because tests may be
// copying them. A template has 64 MB.
const keptTemplates = 4

func removeOldTemplates(root string) error {
	dirs, err := filepath.Glob(filepath.Join(root, "*", "etcd"))
	if err != nil {
		return err
	}
	age := func(dir string) int64 {
		info, err := os.Stat(dir)
		if err != nil {
			return 0
		}
		return -info.ModTime().UnixNano()
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(age(a), age(b)) })
	for _, dir := range dirs[min(keptTemplates, len(dirs)):] {
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// templateName depends on the manifests, on the API server's binary, and on what
// StopAsTemplate removes.
func templateName(assets string) (string, error) {
	objects, err := config.Objects(feature.All())
	if err != nil {
		return "", err
	}
	manifests, err := json.Marshal(objects)
	if err != nil {
		return "", err
	}
	server, err := os.Stat(filepath.Join(assets, string(localcluster.APIServer)))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.8x", sha256.Sum256(fmt.Appendf(manifests, "objects only %d %v", server.Size(), server.ModTime()))), nil
}

func makeTemplate(ctx context.Context, assets, dir string) error {
	c, err := startBare(ctx, In(dir), func(c *localcluster.Config) { c.Assets = assets })
	if err != nil {
		return err
	}
	if err := install.Install(ctx, c.RESTConfig()); err != nil {
		err = fmt.Errorf("install: %w", err)
		return errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c.StopAsTemplate(ctx)
}
