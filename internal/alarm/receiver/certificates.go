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
	// maxTenantModulus is the limit of AlarmReceivers. A signature takes about 6 ms of CPU.
	maxTenantModulus = 4096
)

// modulus returns the maximum length of an RSA key, in bits.
func (b *construction) modulus() int {
	if b.kind == v1alpha1.KindAlarmReceiver {
		return maxTenantModulus
	}
	return maxModulus
}

// certificate returns the named certificate with its key; nil if there is none.
func (b *construction) certificate(ctx context.Context, ref secretKey) (*tls.Certificate, error) {
	data, err := b.all(ctx, ref)
	if err != nil || ref.Name == "" {
		return nil, err
	}
	cert, key := data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
	if len(cert) > maxCertificates || len(key) > maxKey || !smallKeys(cert, b.modulus()) {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: use a smaller certificate: tls.crt has at most %d KiB, tls.key %d KiB, and RSA keys have at most %d bits",
			ref.NamespacedName, maxCertificates>>10, maxKey>>10, b.modulus())
	}
	certificate, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: the keys tls.crt and tls.key must contain a certificate and its private key in PEM", ref.NamespacedName)
	}
	// Go's fast way of signing needs two primes.
	if key, isRSA := certificate.PrivateKey.(*rsa.PrivateKey); isRSA && len(key.Primes) > 2 {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: the RSA key in tls.key has %d primes: use one with two, which is the default of all tools", ref.NamespacedName, len(key.Primes))
	}
	return &certificate, nil
}

// roots returns the named certificate authorities; nil if there are none.
func (b *construction) roots(ctx context.Context, ref secretKey) (*x509.CertPool, error) {
	authorities, err := b.value(ctx, ref)
	if err != nil || ref.Name == "" {
		return nil, err
	}
	if len(authorities) > maxAuthorities || !smallKeys([]byte(authorities), b.modulus()) {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: use smaller certificates: the key %q has at most %d KiB, and RSA keys have at most %d bits",
			ref.NamespacedName, ref.key, maxAuthorities>>10, b.modulus())
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authorities)) {
		return nil, configError(v1alpha1.ReasonInvalidSecret,
			"Secret %s: the key %q holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", ref.NamespacedName, ref.key)
	}
	return pool, nil
}

// smallKeys reports whether no certificate in PEM has an RSA key of more than modulus bits. It
// ignores what is not a certificate.
func smallKeys(data []byte, modulus int) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if key, isRSA := cert.PublicKey.(*rsa.PublicKey); isRSA && key.N.BitLen() > modulus {
			return false
		}
	}
	return true
}
