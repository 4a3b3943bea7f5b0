package localcluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
)

// The two certificate authorities. etcd has its own, so that client certificates of the
// API server give no access to etcd.
const (
	clusterCA = "ca"
	etcdCA    = "etcd-ca"
)

// Certificates, named after their files.
const (
	serverCert            = "server" // of all components except etcd
	adminCert             = "admin"
	controllerManagerCert = "controller-manager"
	schedulerCert         = "scheduler"
	kwokCert              = "kwok"
	kubeletClientCert     = "kubelet-client" // of the API server, for kubelets
	etcdServerCert        = "etcd"
	etcdClientCert        = "etcd-client"
)

// serviceAccountKey signs the tokens of service accounts.
const serviceAccountKey = "service-account.key"

// certificates are the certificates of a cluster with their authorities.
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

// pki is the directory of the keys and certificates. Valid ones are kept. Missing or
// expiring ones, and those of another authority, are created again.
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

// ensure returns the named pair, and creates it if it is not valid. Without an authority,
// the pair is an authority itself.
func (p *pki) ensure(name string, authority *keyPair, r request) (*keyPair, error) {
	if pair, err := readKeyPair(p.cert(name), p.key(name)); err == nil && p.issuer.isValid(pair, authority) {
		return pair, nil
	}
	pair, err := p.issuer.issue(authority, r)
	if err != nil {
		return nil, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	return pair, pair.write(p.cert(name), p.key(name))
}

// ensureServiceAccountKey never replaces the key, because that would invalidate tokens.
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

// client issues a certificate for a user of the API.
func (p *pki) client(user string, groups ...string) (*keyPair, error) {
	return p.issuer.issue(p.authorities[clusterCA], request{user: user, groups: groups})
}

func (p *pki) cert(name string) string { return p.dir.pki(name + ".crt") }
func (p *pki) key(name string) string  { return p.dir.pki(name + ".key") }

// request is the subject of a certificate.
type request struct {
	user   string
	groups []string
	names  []string // addresses and host names of a server
}

func (r request) subject() pkix.Name {
	return pkix.Name{CommonName: r.user, Organization: r.groups}
}

// keyPair is a private key with its certificate.
type keyPair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// A start renews certificates that expire within a month. An authority outlives all
// certificates that it signs.
const (
	day               = 24 * time.Hour
	certificateLife   = 365 * day
	authorityLife     = 10 * certificateLife
	renewCertificate  = 30 * day
	renewAuthority    = certificateLife + renewCertificate
	toleratedClockLag = 5 * time.Minute
)

// issuer creates keys and certificates.
type issuer struct {
	clock clock.PassiveClock
}

// isValid reports whether a pair can still be used.
func (i issuer) isValid(pair, authority *keyPair) bool {
	left := pair.cert.NotAfter.Sub(i.clock.Now())
	if authority == nil {
		return left > renewAuthority
	}
	return left > renewCertificate && pair.cert.CheckSignatureFrom(authority.cert) == nil
}

// issue creates a pair that the authority signs. If authority is nil, the pair signs
// itself.
func (i issuer) issue(authority *keyPair, r request) (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := i.template(r)
	if err != nil {
		return nil, err
	}
	if authority == nil {
		template.IsCA = true
		template.ExtKeyUsage = nil // no restriction
		template.KeyUsage |= x509.KeyUsageCertSign
		template.NotAfter = template.NotBefore.Add(authorityLife)
		authority = &keyPair{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.cert, key.Public(), authority.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &keyPair{cert: cert, key: key}, err
}

func (i issuer) template(r request) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	start := i.clock.Now().Add(-toleratedClockLag)
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               r.subject(),
		NotBefore:             start,
		NotAfter:              start.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	for _, name := range r.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if len(r.names) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return template, nil
}

func readKeyPair(certFile, keyFile string) (*keyPair, error) {
	certs, err := certutil.CertsFromFile(certFile)
	if err != nil {
		return nil, err
	}
	key, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: not a key that signs", keyFile)
	}
	return &keyPair{cert: certs[0], key: signer}, nil
}

func (p *keyPair) write(certFile, keyFile string) error {
	key, err := p.keyPEM()
	if err != nil {
		return err
	}
	if err := os.WriteFile(certFile, p.certPEM(), 0o600); err != nil {
		return err
	}
	return os.WriteFile(keyFile, key, 0o600)
}

func (p *keyPair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: p.cert.Raw})
}

func (p *keyPair) keyPEM() ([]byte, error) {
	return keyutil.MarshalPrivateKeyToPEM(p.key)
}
