package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bongsu-io/bongsu/pkg/localcluster"
)

// Kubectl returns a function that runs kubectl as whom a configuration is of, and
// returns what it printed.
func (c *Cluster) Kubectl(t testing.TB, config *rest.Config) func(args ...string) (string, error) {
	t.Helper()
	path := Kubeconfig(t, config)
	dir, err := localcluster.DefaultAssets()
	if err != nil {
		t.Fatal(err)
	}
	return func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl"), append([]string{"--kubeconfig", path}, args...)...).CombinedOutput()
		if err != nil {
			return string(out), fmt.Errorf("kubectl: %w", err)
		}
		return string(out), nil
	}
}

// Kubeconfig writes a configuration to a file for other programs, and returns its path.
func Kubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfigOf(config), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func kubeconfigOf(config *rest.Config) clientcmdapi.Config {
	const name = "test"
	made := clientcmdapi.NewConfig()
	made.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	made.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	made.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	made.CurrentContext = name
	return *made
}
