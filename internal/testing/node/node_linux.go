package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Node is a real node: a kubelet with its own containerd.
type Node struct {
	Name string

	cluster             *Cluster
	settings            settings
	containerd, kubelet *process
}

// AddNode starts a node that has the images of the archives. flags are for the kubelet.
// AddNode returns before the node has joined.
func (c *Cluster) AddNode(t testing.TB, name string, archives []string, flags ...string) *Node {
	t.Helper()
	return c.addNode(t, name, cniPlugins, archives, flags)
}

// AddNodeWithoutPlugins is AddNode for a node that lacks the network plugins. Only pods of the
// host's network run on it.
func (c *Cluster) AddNodeWithoutPlugins(t testing.TB, name string, flags ...string) *Node {
	t.Helper()
	return c.addNode(t, name, c.sandbox.path(name, "no-plugins"), nil, flags)
}

func (c *Cluster) addNode(t testing.TB, name, plugins string, archives, flags []string) *Node {
	t.Helper()
	number := len(c.nodes)
	n := &Node{Name: name, cluster: c, settings: settings{
		Dir: c.sandbox.path(name), Name: name, Cgroup: c.sandbox.cgroup(name),
		Address: addressOf(number), Pods: podsOf(number), Network: network, Bridge: bridge,
		CNIPlugins: plugins, SandboxImage: TestImage, CertificateAuthority: c.CertificateAuthority(),
	}}
	c.nodes = append(c.nodes, n)
	if err := n.start(t.Context(), number, append(archives, buildTestImage(t)), flags); err != nil {
		t.Fatalf("start node %s: %v", name, err)
	}
	return n
}

func (n *Node) start(ctx context.Context, number int, archives, flags []string) error {
	if number > 0 { // makeNetwork adds the first address
		if err := ip(ctx, "addr add "+n.settings.Address+"/24 dev "+bridge); err != nil {
			return err
		}
	}
	if err := makeCgroups(n.settings.Cgroup); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	for _, archive := range archives {
		if err := n.Import(ctx, archive); err != nil {
			return err
		}
	}
	return n.startKubelet(flags)
}

func (n *Node) startContainerd(ctx context.Context) error {
	if _, err := n.settings.configure("bridge.conflist"); err != nil { // containerd reads it from there
		return err
	}
	config, err := n.settings.configure("containerd.toml")
	if err != nil {
		return err
	}
	n.containerd, err = spawn("containerd", n.settings.Dir, "containerd", "--config", config)
	if err != nil {
		return err
	}
	return n.containerd.await(ctx, func(ctx context.Context) bool { return n.ctr(ctx, "version") == nil })
}

// Import loads the images of an archive: an OCI layout, or the output of `docker save`.
func (n *Node) Import(ctx context.Context, archive string) error {
	return n.ctr(ctx, "images", "import", archive)
}

func (n *Node) ctr(ctx context.Context, args ...string) error {
	args = append([]string{"--address", n.path("containerd.sock"), "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, "ctr", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %v: %w: %s", args, err, out)
	}
	return nil
}

func (n *Node) startKubelet(flags []string) error {
	config, err := n.settings.configure("kubelet.yaml")
	if err != nil {
		return err
	}
	kubeconfig := n.path("kubeconfig")
	if err := n.cluster.WriteUserKubeconfig(kubeconfig, "system:node:"+n.Name, "system:nodes"); err != nil {
		return err
	}
	n.kubelet, err = startComponent("kubelet", n.settings.Dir, append(flags,
		"--config="+config, "--kubeconfig="+kubeconfig, "--hostname-override="+n.Name, "--node-ip="+n.settings.Address,
		"--root-dir="+n.path("kubelet"), "--cert-dir="+n.path("kubelet", "pki"))...)
	return err
}

// KillKubelet kills the kubelet, as if the machine failed. Its containers continue to run.
func (n *Node) KillKubelet() {
	n.kubelet.kill()
	n.kubelet = nil
}

// MakeVolume creates a directory on the node and returns its path. Any user in a container
// may write to it.
func (n *Node) MakeVolume(name string) (string, error) {
	dir := n.path("volumes", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777)
}

func (n *Node) path(elem ...string) string {
	return filepath.Join(append([]string{n.settings.Dir}, elem...)...)
}

func (n *Node) stop() error { return errors.Join(n.kubelet.stop(), n.containerd.stop()) }

// TestImage is an image that every node has. It contains the command in testimage/, and is
// also the sandbox image of pods.
const TestImage = "localhost/testimage:e2e"

// buildTestImage builds the image and returns the path of its archive.
func buildTestImage(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "testimage")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, "github.com/bongsu-io/bongsu/internal/testing/node/testimage")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test image: %v\n%s", err, out)
	}
	archive := filepath.Join(dir, "testimage.tar")
	if err := packTestImage(binary, archive); err != nil {
		t.Fatal(err)
	}
	return archive
}

// packTestImage writes an image that contains only one binary, in the format of
// `docker save`.
func packTestImage(binary, archive string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	layer, err := tarOf(map[string][]byte{"testimage": program})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"Entrypoint": []string{"/testimage"}, "User": "65532:65532"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{TestImage}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := tarOf(map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(archive, image, 0o600)
}

func tarOf(files map[string][]byte) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for name, content := range files {
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := w.Write(content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return text.Bytes(), w.Close()
}
