package localcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Compact drops all history up to now from etcd. Whoever then asks to watch from
// an earlier resourceVersion is told that it has expired.
func (c *Cluster) Compact(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	return c.etcdctl(ctx, "compaction", "--physical", list.ResourceVersion)
}

// SnapshotSave writes all that the cluster stores to a file.
func (c *Cluster) SnapshotSave(ctx context.Context, file string) error {
	return c.etcdctl(ctx, "snapshot", "save", file)
}

// SnapshotRestore puts the cluster back to what SnapshotSave has written, its
// resourceVersions included, and starts every component anew: none of them
// could make sense of a store that has gone back in time.
func (c *Cluster) SnapshotRestore(ctx context.Context, file string) error {
	running := slices.Concat(c.config.Components, []Component{APIServer, Etcd})
	for _, component := range running {
		_ = c.Kill(component) // one that does not run is as good as killed
	}
	if err := os.RemoveAll(c.dir.etcdData()); err != nil {
		return err
	}
	err := c.run(ctx, "etcdutl", "snapshot", "restore", file,
		"--data-dir="+c.dir.etcdData(),
		"--initial-cluster=default="+c.ports.url(etcdPeer),
		"--initial-advertise-peer-urls="+c.ports.url(etcdPeer))
	if err != nil {
		return err
	}
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.Restart(ctx, component); err != nil {
			return err
		}
	}
	return c.bringAll(ctx, c.config.Components)
}

func (c *Cluster) etcdctl(ctx context.Context, args ...string) error {
	return c.run(ctx, "etcdctl", append([]string{
		"--endpoints=" + c.ports.url(Etcd),
		"--cacert=" + c.pki.cert(etcdCA),
		"--cert=" + c.pki.cert(etcdClientCert),
		"--key=" + c.pki.key(etcdClientCert),
	}, args...)...)
}

// run runs a tool to its end.
func (c *Cluster) run(ctx context.Context, tool string, args ...string) error {
	cmd := exec.CommandContext(ctx, c.binary(tool), args...)
	cmd.Dir = string(c.dir)
	cmd.Env = environment(c.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", tool, err, out)
	}
	return nil
}
