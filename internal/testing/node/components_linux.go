package node

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"

	"github.com/bongsu-io/bongsu/internal/localcluster"
)

//go:embed config
var configs embed.FS

// settings are what the templates in config/ are filled in with.
type settings struct {
	Dir, Name, Address, Bridge, PodNetwork, Cgroup string
	CNIPlugins, SandboxImage, CertificateAuthority string
}

// configure writes a template of config/, filled in, and returns where.
func (c *Cluster) configure(name string) (string, error) {
	made, err := template.ParseFS(configs, "config/"+name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = made.Execute(&text, settings{
		Dir: c.house.dir, Name: Name, Address: Address, Bridge: bridge, PodNetwork: podNetwork, Cgroup: c.house.cgroup(),
		CNIPlugins: cniPlugins, SandboxImage: SandboxImage, CertificateAuthority: c.CertificateAuthority(),
	})
	if err != nil {
		return "", err
	}
	path := c.house.path("cni", name) // where containerd looks for that of the network
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text.Bytes(), 0o600)
}

func (c *Cluster) startContainerd(ctx context.Context) error {
	if _, err := c.configure("bridge.conflist"); err != nil {
		return err
	}
	config, err := c.configure("containerd.toml")
	if err != nil {
		return err
	}
	p, err := c.spawn("containerd", "containerd", "--config", config)
	if err != nil {
		return err
	}
	return p.await(ctx, func(ctx context.Context) bool {
		return c.ctr(ctx, "plugins", "ls") == nil
	})
}

// Import gives the node the images of an archive, as `docker save` or an OCI layout.
func (c *Cluster) Import(ctx context.Context, archive string) error {
	return c.ctr(ctx, "images", "import", "--no-unpack=false", archive)
}

func (c *Cluster) ctr(ctx context.Context, args ...string) error {
	args = append([]string{"--address", c.house.path("containerd", "socket"), "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, "ctr", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %v: %w: %s", args, err, out)
	}
	return nil
}

func (c *Cluster) startKubelet() error {
	kubeconfig := c.house.path("kubelet.kubeconfig")
	if err := c.WriteUserKubeconfig(kubeconfig, "system:node:"+Name, "system:nodes"); err != nil {
		return err
	}
	return c.startComponent("kubelet",
		"--kubeconfig="+kubeconfig, "--hostname-override="+Name, "--node-ip="+Address,
		"--root-dir="+c.house.path("kubelet"), "--cert-dir="+c.house.path("kubelet", "pki"))
}

func (c *Cluster) startProxy() error {
	if err := c.WriteUserKubeconfig(c.house.path("kube-proxy.kubeconfig"), "system:kube-proxy"); err != nil {
		return err
	}
	return c.startComponent("kube-proxy")
}

// startComponent starts a part of Kubernetes with its configuration of config/.
func (c *Cluster) startComponent(name string, args ...string) error {
	config, err := c.configure(name + ".yaml")
	if err != nil {
		return err
	}
	dir, err := localcluster.DefaultAssets()
	if err != nil {
		return err
	}
	_, err = c.spawn(name, filepath.Join(dir, name), append(args, "--config="+config)...)
	return err
}
