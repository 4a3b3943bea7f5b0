package localcluster

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"

	"k8s.io/client-go/util/keyutil"
)

// The two authorities. etcd has its own: whoever has a client certificate of
// the cluster's is some user of the API, and must not reach past it into etcd.
const (
	clusterCA = "ca"
	etcdCA    = "etcd-ca"
)

// The certificates, by the name of their files.
const (
	serverCert            = "server" // served by all but etcd
	adminCert             = "admin"
	controllerManagerCert = "controller-manager"
	schedulerCert         = "scheduler"
	kwokCert              = "kwok"
	kubeletClientCert     = "kubelet-client" // the API server's, towards kubelets
	etcdServerCert        = "etcd"
	etcdClientCert        = "etcd-client"
)

// serviceAccountKey signs the tokens of service accounts.
const serviceAccountKey = "service-account.key"

// certificates lists what a cluster has, and which authority signs it.
var certificates = []struct {
	name, authority string
	request         request
}{
	{serverCert, clusterCA, request{names: serverNames}},
	{adminCert, clusterCA, request{user: "kubernetes-admin", groups: []string{"system:masters"}}},
	{controllerManagerCert, clusterCA, request{user: "system:kube-controller-manager"}},
	{schedulerCert, clusterCA, request{user: "system:kube-scheduler"}},
	{kwokCert, clusterCA, request{user: "kwok", groups: []string{"system:masters"}}},
	{kubeletClientCert, clusterCA, request{user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}}},
	{etcdServerCert, etcdCA, request{user: "etcd", names: []string{loopback, "localhost"}}},
	{etcdClientCert, etcdCA, request{user: "kube-apiserver-etcd-client"}},
}

var serverNames = []string{
	loopback, "::1", serviceIP, "localhost",
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// pki is the cluster's keys and certificates, in files. What is there and good
// is kept; what is missing, near its end or not of our authority is made anew.
type pki struct {
	dir         layout
	issuer      issuer
	authorities map[string]*keyPair
}

func ensurePKI(dir layout, issuer issuer) (*pki, error) {
	p := &pki{dir: dir, issuer: issuer, authorities: map[string]*keyPair{}}
	for _, name := range []string{clusterCA, etcdCA} {
		ca, err := p.ensure(name, nil, request{user: "bongsu-" + name})
		if err != nil {
			return nil, err
		}
		p.authorities[name] = ca
	}
	for _, c := range certificates {
		if _, err := p.ensure(c.name, p.authorities[c.authority], c.request); err != nil {
			return nil, err
		}
	}
	return p, p.ensureServiceAccountKey()
}

// ensure returns the named pair, from its files if it is good. With no
// authority to sign it, it is an authority itself.
func (p *pki) ensure(name string, authority *keyPair, r request) (*keyPair, error) {
	if pair, err := readKeyPair(p.cert(name), p.key(name)); err == nil && p.issuer.good(pair, authority) {
		return pair, nil
	}
	pair, err := p.issuer.issue(authority, r)
	if err != nil {
		return nil, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	return pair, pair.write(p.cert(name), p.key(name))
}

// ensureServiceAccountKey never replaces a key: tokens that it signed live on.
func (p *pki) ensureServiceAccountKey() error {
	file := p.dir.pki(serviceAccountKey)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return keyutil.WriteKey(file, key)
}

// client signs a certificate for a user of the API.
func (p *pki) client(user string, groups ...string) (*keyPair, error) {
	return p.issuer.issue(p.authorities[clusterCA], request{user: user, groups: groups})
}

func (p *pki) cert(name string) string { return p.dir.pki(name + ".crt") }
func (p *pki) key(name string) string  { return p.dir.pki(name + ".key") }

// request is what a certificate is to say.
type request struct {
	user   string
	groups []string
	names  []string // of a server: addresses and host names
}

func (r request) subject() pkix.Name {
	return pkix.Name{CommonName: r.user, Organization: r.groups}
}

// keyPair is a private key with its certificate.
type keyPair struct {
	cert *x509.Certificate
	key  crypto.Signer
}
