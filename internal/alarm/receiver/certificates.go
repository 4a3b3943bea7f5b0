package receiver

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"

	corev1 "k8s.io/api/core/v1"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// Limits of certificates and keys, in bytes of PEM and bits. A signature takes eight times as
// long with an RSA key of twice the length, and nothing interrupts it. A tenant could occupy all
// CPUs with a key of 65,536 bits.
const (
	maxAuthorities  = 512 << 10
	maxCertificates = 64 << 10
	maxKey          = 8 << 10 // an RSA key of maxModulus bits needs 6.5 KiB
	maxModulus      = 8192
)

// certificate returns the named certificate with its key; nil if there is none.
func (b *construction) certificate(ctx context.Context, ref secretKey) (*tls.Certificate, error) {
	data, err := b.all(ctx, ref)
	if err != nil || ref.Name == "" {
		return nil, err
	}
	cert, key := data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
	if len(cert) > maxCertificates || len(key) > maxKey || !smallKeys(cert) {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: use a smaller certificate: tls.crt has at most %d KiB, tls.key %d KiB, and RSA keys have at most %d bits",
			ref.NamespacedName, maxCertificates>>10, maxKey>>10, maxModulus)
	}
	certificate, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: the keys tls.crt and tls.key must contain a certificate and its private key in PEM", ref.NamespacedName)
	}
	return &certificate, nil
}

// roots returns the named certificate authorities; nil if there are none.
func (b *construction) roots(ctx context.Context, ref secretKey) (*x509.CertPool, error) {
	authorities, err := b.value(ctx, ref)
	if err != nil || ref.Name == "" {
		return nil, err
	}
	if len(authorities) > maxAuthorities || !smallKeys([]byte(authorities)) {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: use smaller certificates: the key %q has at most %d KiB, and RSA keys have at most %d bits",
			ref.NamespacedName, ref.key, maxAuthorities>>10, maxModulus)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authorities)) {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: the key %q holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", ref.NamespacedName, ref.key)
	}
	return pool, nil
}

// smallKeys reports whether no certificate in PEM has a public key that is too large. It
// ignores what is not a certificate.
func smallKeys(data []byte) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if key, isRSA := cert.PublicKey.(*rsa.PublicKey); isRSA && key.N.BitLen() > maxModulus {
			return false
		}
	}
	return true
}
