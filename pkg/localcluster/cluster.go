package localcluster

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is a running control plane.
type Cluster struct {
	config Config
	dir    layout
	lock   *os.File
	ports  *ports
	pki    *pki

	failed chan error
	// kubelet is nil if KWOK answers for the nodes.
	kubelet *kubeletServer

	mu        sync.Mutex
	processes map[Component]*process
}

//go:embed audit-policy.yaml
var auditPolicy []byte

// clusterExec makes KWOK run commands for the containers of all pods.
//
//go:embed cluster-exec.yaml
var clusterExec []byte

// Start starts a cluster, or the one that is in the directory already. It returns when
// the API server and the other components are ready. If it fails, or ctx ends before, it
// stops all processes. It returns ErrNoAssets without binaries, and ErrInUse if a cluster
// runs in the directory.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	dir := layout(config.Dir)
	if err := dir.make(); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		config: config, dir: dir, lock: lock, ports: loadPorts(dir),
		// The buffer has room for several failures of each component, so that no
		// goroutine blocks if no one reads them.
		failed:    make(chan error, 32),
		processes: map[Component]*process{},
	}
	if err := c.start(ctx); err != nil {
		_ = c.Stop(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("start the local cluster in %s: %w", dir, err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := killStale(ctx, c.dir); err != nil {
		return err
	}
	if err := discardFirstStart(c.dir); err != nil {
		return err
	}
	if err := copyTemplate(c.dir, layout(c.config.Template)); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if err := c.startStore(ctx); err != nil {
		return err
	}
	if err := c.startComponent(ctx, APIServer); err != nil {
		return err
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if c.simulatesExec() {
		if err := c.startKubelet(); err != nil {
			return err
		}
	}
	if err := c.startAll(ctx, c.config.Components); err != nil {
		return err
	}
	return c.createObjects(ctx)
}

// startStore starts etcd. If etcd is killed while it starts for the first time, it has written who
// it is, but not that it is a member. It would never become ready again. A file marks this time.
func (c *Cluster) startStore(ctx context.Context) error {
	if _, err := os.Stat(c.dir.etcdData()); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(c.dir.firstStart(), nil, 0o600); err != nil {
			return err
		}
	}
	if err := c.startComponent(ctx, Etcd); err != nil {
		return err
	}
	return os.RemoveAll(c.dir.firstStart())
}

// discardFirstStart removes the data of an etcd that never became ready. It contains no objects.
func discardFirstStart(dir layout) error {
	if _, err := os.Stat(dir.firstStart()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(dir.etcdData()); err != nil {
		return err
	}
	return os.Remove(dir.firstStart())
}

// writeFiles writes the files that the components read.
func (c *Cluster) writeFiles() error {
	var err error
	if c.pki, err = ensurePKI(c.dir, issuer{clock: c.config.Clock}); err != nil {
		return err
	}
	if err := os.WriteFile(c.dir.auditPolicy(), auditPolicy, 0o600); err != nil {
		return err
	}
	stages, err := renderStages()
	if err != nil {
		return err
	}
	if c.config.ExecPath != "" {
		stages = append(stages, clusterExec...)
	}
	stages = append(stages, portForwards(c.config.ForwardPorts)...)
	if err := os.WriteFile(c.dir.stages(), stages, 0o600); err != nil {
		return err
	}
	return c.ports.ensure(c.dir, append([]Component{Etcd, etcdPeer, APIServer, kubelet}, c.config.Components...)...)
}

// portForwards makes KWOK forward ports of all pods to ports of this machine.
func portForwards(ports map[int32]int32) []byte {
	if len(ports) == 0 {
		return nil
	}
	var rule bytes.Buffer
	rule.WriteString("---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterPortForward\nmetadata:\n  name: all\nspec:\n  forwards:\n")
	for _, pod := range slices.Sorted(maps.Keys(ports)) {
		fmt.Fprintf(&rule, "  - {ports: [%d], target: {address: 127.0.0.1, port: %d}}\n", pod, ports[pod])
	}
	return rule.Bytes()
}

// createObjects creates the storage class and the nodes.
func (c *Cluster) createObjects(ctx context.Context) error {
	if slices.Contains(c.config.Components, Kwok) {
		if err := c.ensureStorageClass(ctx); err != nil {
			return err
		}
	}
	names := make([]string, c.config.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
	}
	return c.AddNode(ctx, names...)
}

// Grace periods of the components. Together they are well below the ten seconds that Stop
// may take.
const (
	clientGrace    = 2 * time.Second
	apiServerGrace = 4 * time.Second
	etcdGrace      = 2 * time.Second
)

// Stop stops all processes of the cluster. It takes at most ten seconds, and kills them
// at once if ctx ends. A second call does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	var clients sync.WaitGroup
	for component, p := range c.processes {
		if component != Etcd && component != APIServer {
			clients.Go(func() { p.stop(ctx, clientGrace) })
		}
	}
	clients.Wait()
	if c.kubelet != nil {
		c.kubelet.close()
	}
	if p := c.processes[APIServer]; p != nil {
		p.stop(ctx, apiServerGrace)
	}
	if p := c.processes[Etcd]; p != nil {
		p.stop(ctx, etcdGrace)
	}
	clear(c.processes)
	c.ports.release()
	if err := c.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Failed sends a *ComponentError for each component that ends unexpectedly. The component
// is not restarted. The channel is never closed.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Dir returns the directory of the cluster.
func (c *Cluster) Dir() string { return string(c.dir) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.dir.kubeconfig() }

// AuditLog returns the path of the API server's audit log. Each line is a JSON object
// without request and response bodies.
func (c *Cluster) AuditLog() string { return c.dir.auditLog() }

func (c *Cluster) binary(name string) string {
	return filepath.Join(c.config.Assets, name)
}

// client returns a client with all permissions.
func (c *Cluster) client() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(c.RESTConfig())
}

// RESTConfig returns a configuration with all permissions (group system:masters) and
// without a client-side rate limit.
func (c *Cluster) RESTConfig() *rest.Config {
	config := c.baseConfig()
	config.CertFile, config.KeyFile = c.pki.cert(adminCert), c.pki.key(adminCert)
	return config
}

// ClientConfigFor returns a configuration for a user. Grant the user and the groups
// permissions with RBAC.
func (c *Cluster) ClientConfigFor(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.pki.client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for %s: %w", user, err)
	}
	config := c.baseConfig()
	config.CertData = pair.certPEM()
	config.KeyData, err = pair.keyPEM()
	return config, err
}

func (c *Cluster) baseConfig() *rest.Config {
	return &rest.Config{
		Host:            c.ports.url(APIServer),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.authorities[clusterCA].certPEM()},
		QPS:             -1,
	}
}

// tokenSeconds is the lifetime of a service account token, longer than a local cluster
// usually runs.
const tokenSeconds = 365 * 24 * 60 * 60

// WriteServiceAccountKubeconfig writes a kubeconfig with a token of an existing service
// account. Only the owner of the file can read it.
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

// WriteUserKubeconfig writes a kubeconfig for the user of ClientConfigFor. Only the owner
// of the file can read it.
func (c *Cluster) WriteUserKubeconfig(path, user string, groups ...string) error {
	config, err := c.ClientConfigFor(user, groups...)
	if err != nil {
		return err
	}
	return c.writeKubeconfig(path, user, "", &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	})
}

// CertificateAuthority returns the path of the CA certificate of the cluster.
func (c *Cluster) CertificateAuthority() string { return c.pki.cert(clusterCA) }

// writeKubeconfigs writes the kubeconfigs of the administrator and of the components.
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

// writeCertKubeconfig embeds the certificate, so that the kubeconfig can be copied.
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
