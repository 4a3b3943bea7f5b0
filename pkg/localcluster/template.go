package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// clientAuthorities is etcd's key of the ConfigMap in which the API server publishes the
// authorities of its clients, for the other components. The API server adds its own to
// those that are there.
const clientAuthorities = "/registry/configmaps/kube-system/extension-apiserver-authentication"

// StopAsTemplate stops the cluster, like Stop. Its directory then is a template for other
// clusters: it contains the objects, and nothing that belongs to the certificates.
func (c *Cluster) StopAsTemplate(ctx context.Context) error {
	err := c.Kill(APIServer) // it would write the ConfigMap again
	if err == nil {
		err = c.etcdctl(ctx, "del", clientAuthorities)
	}
	if err := errors.Join(err, c.Stop(ctx)); err != nil {
		return err
	}
	files, err := os.ReadDir(c.Dir())
	if err != nil {
		return err
	}
	for _, file := range files {
		if path := c.dir.path(file.Name()); path != c.dir.etcdData() {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// copyTemplate copies the objects of a template. It does nothing if dir already contains a
// cluster.
func copyTemplate(dir, template layout) error {
	if template == "" {
		return nil
	}
	if _, err := os.Stat(dir.etcdData()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	partial := dir.path("tmp", filepath.Base(dir.etcdData())) // the data is complete once it has its name
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.CopyFS(partial, os.DirFS(template.etcdData())); err != nil {
		return fmt.Errorf("copy the cluster %s: %w", template, err)
	}
	return os.Rename(partial, dir.etcdData())
}
