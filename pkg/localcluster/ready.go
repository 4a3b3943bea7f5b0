package localcluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// healthPaths is where a component says that it is ready.
var healthPaths = map[Component]string{
	Etcd:              "/readyz",
	APIServer:         "/readyz",
	ControllerManager: "/healthz",
	Scheduler:         "/readyz",
	Kwok:              "/healthz",
}

const readyInterval = 25 * time.Millisecond

// awaitReady returns when the component answers that it is ready; with its
// failure if it ends first.
func (c *Cluster) awaitReady(ctx context.Context, p *process) error {
	client, err := c.probeClient(p.component)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	url := c.ports.url(p.component) + healthPaths[p.component]
	err = wait.PollUntilContextCancel(ctx, readyInterval, true, func(ctx context.Context) (bool, error) {
		if !p.running() {
			return false, p.failure()
		}
		return answersOK(ctx, client, url), nil
	})
	if err != nil && p.running() {
		return fmt.Errorf("%s does not get ready: %w; the last of its log:\n%s", p.component, err, tail(c.dir.log(p.component)))
	}
	return err
}

// probeClient trusts the component, and is trusted by it.
func (c *Cluster) probeClient(component Component) (*http.Client, error) {
	authority, name := clusterCA, adminCert
	if component == Etcd {
		authority, name = etcdCA, etcdClientCert
	}
	cert, err := tls.LoadX509KeyPair(c.pki.cert(name), c.pki.key(name))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.pki.authorities[authority].cert)
	return &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert},
		}},
	}, nil
}

func answersOK(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
