package localcluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
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

// Certificates are renewed at the first start in their last month, which a
// cluster for development sees in time. An authority outlives all that it signs.
const (
	day               = 24 * time.Hour
	certificateLife   = 365 * day
	authorityLife     = 10 * certificateLife
	renewCertificate  = 30 * day
	renewAuthority    = certificateLife + renewCertificate
	toleratedClockLag = 5 * time.Minute
)

// issuer makes keys and certificates.
type issuer struct {
	clock clock.PassiveClock
}

// good says whether a pair can go on being used.
func (i issuer) good(pair, authority *keyPair) bool {
	left := pair.cert.NotAfter.Sub(i.clock.Now())
	if authority == nil {
		return left > renewAuthority
	}
	return left > renewCertificate && pair.cert.CheckSignatureFrom(authority.cert) == nil
}

// issue makes a pair, signed by the authority; by itself if that is nil.
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
		template.ExtKeyUsage = nil // whatever it signs may be used for
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
