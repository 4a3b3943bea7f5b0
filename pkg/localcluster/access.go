package localcluster

import (
	"context"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// RESTConfig returns a configuration with every right (group system:masters),
// without a rate limit of its own: the API server has one.
func (c *Cluster) RESTConfig() *rest.Config {
	config := c.anonymous()
	config.CertFile, config.KeyFile = c.pki.cert(adminCert), c.pki.key(adminCert)
	return config
}

// ClientConfigFor returns a configuration for a user with the rights that RBAC
// gives to them and to their groups: none to begin with.
func (c *Cluster) ClientConfigFor(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.pki.client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for %s: %w", user, err)
	}
	config := c.anonymous()
	config.CertData = pair.certPEM()
	config.KeyData, err = pair.keyPEM()
	return config, err
}

func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{
		Host:            c.ports.url(APIServer),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.authorities[clusterCA].certPEM()},
		QPS:             -1,
	}
}

// tokenSeconds is how long a token for a service account is good: longer than
// anybody keeps a local cluster running. Each call makes a new one.
const tokenSeconds = 365 * 24 * 60 * 60

// WriteServiceAccountKubeconfig writes a kubeconfig with a token of a service
// account, which must exist, for nobody but the file's owner to read.
func (c *Cluster) WriteServiceAccountKubeconfig(ctx context.Context, namespace, name, path string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("request a token for service account %s/%s: %w", namespace, name, err)
	}
	return c.writeKubeconfig(path, name, namespace, &clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// WriteUserKubeconfig writes a kubeconfig of a user, as of ClientConfigFor, for nobody
// but the file's owner to read.
func (c *Cluster) WriteUserKubeconfig(path, user string, groups ...string) error {
	config, err := c.ClientConfigFor(user, groups...)
	if err != nil {
		return err
	}
	return c.writeKubeconfig(path, user, "", &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	})
}

// CertificateAuthority returns the path of the certificate that those of the cluster's
// users are signed with.
func (c *Cluster) CertificateAuthority() string { return c.pki.cert(clusterCA) }

// writeKubeconfigs writes the administrator's, and those of the components.
func (c *Cluster) writeKubeconfigs() error {
	if err := c.writeCertKubeconfig(adminCert, c.dir.kubeconfig()); err != nil {
		return err
	}
	for _, name := range []string{controllerManagerCert, schedulerCert, kwokCert} {
		if err := c.writeCertKubeconfig(name, c.kubeconfigOf(name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) kubeconfigOf(name string) string {
	return c.dir.pki(name + ".kubeconfig")
}

// writeCertKubeconfig embeds the certificate: a kubeconfig is copied around.
func (c *Cluster) writeCertKubeconfig(name, path string) error {
	cert, err := os.ReadFile(c.pki.cert(name))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.pki.key(name))
	if err != nil {
		return err
	}
	return c.writeKubeconfig(path, name, "", &clientcmdapi.AuthInfo{
		ClientCertificateData: cert, ClientKeyData: key,
	})
}

func (c *Cluster) writeKubeconfig(path, user, namespace string, auth *clientcmdapi.AuthInfo) error {
	const cluster = "bongsu-local"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{
		Server:                   c.ports.url(APIServer),
		CertificateAuthorityData: c.pki.authorities[clusterCA].certPEM(),
	}
	config.AuthInfos[user] = auth
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user, Namespace: namespace}
	config.CurrentContext = cluster
	return clientcmd.WriteToFile(*config, path)
}
