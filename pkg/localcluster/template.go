package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// copyTemplate copies the data and the certificates of a stopped cluster. It does
// nothing if dir already contains a cluster.
func copyTemplate(dir, template layout) error {
	if template == "" {
		return nil
	}
	if _, err := os.Stat(dir.etcdData()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The data is complete once it has its name, and the certificates come before it.
	partial := dir.path("tmp", "etcd")
	for _, copied := range []struct{ from, to string }{{template.pki(""), dir.pki("")}, {template.etcdData(), partial}} {
		if err := os.RemoveAll(copied.to); err != nil {
			return err
		}
		if err := os.CopyFS(copied.to, os.DirFS(copied.from)); err != nil {
			return fmt.Errorf("copy the cluster %s: %w", template, err)
		}
	}
	return os.Rename(partial, dir.etcdData())
}
