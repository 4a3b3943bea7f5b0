package httppost

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// maxChain is the number of certificates that the server of a guarded client may show. Those of
// public servers are two to four.
const maxChain = 10

var (
	errLongChain = errors.New("the server shows too many certificates")
	errNoHost    = errors.New("the server has no name")
)

func newTLSConfig(cfg Config) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots, ClientSessionCache: cfg.sessions}
	if cfg.Certificate != nil {
		config.Certificates = []tls.Certificate{*cfg.Certificate}
	}
	return config
}

// newHostConfig returns the configuration of a connection to a host. A tenant determines the keys
// of a guarded client and its server, so that their signatures are made and verified in turn. ctx
// must last until the end of the handshake.
func newHostConfig(ctx context.Context, cfg Config, host string) *tls.Config {
	config := newTLSConfig(cfg)
	config.ServerName = host
	if cfg.Guard == nil {
		return config
	}
	config.InsecureSkipVerify = true // verify does the same, in turn
	config.VerifyConnection = func(s tls.ConnectionState) error { return verify(ctx, cfg.Roots, host, s.PeerCertificates) }
	for i, own := range config.Certificates {
		if key, ok := own.PrivateKey.(crypto.Signer); ok {
			config.Certificates[i].PrivateKey = signer{key, ctx}
		}
	}
	return config
}

// verify verifies the certificates of a server as crypto/tls does. It is called for a resumed session too.
func verify(ctx context.Context, roots *x509.CertPool, host string, shown []*x509.Certificate) error {
	switch {
	case host == "":
		return errNoHost
	case len(shown) > maxChain:
		return errLongChain
	}
	// A host that is an address is not in tls.ConnectionState.
	options := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, cert := range shown[1:] {
		options.Intermediates.AddCert(cert)
	}
	var err error
	if ended := notify.InTurn(ctx, func() { _, err = shown[0].Verify(options) }); ended != nil {
		return ended
	}
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: shown, Err: err}
	}
	return nil
}

// signer is a key that signs in turn.
type signer struct {
	crypto.Signer
	ctx context.Context //nolint:containedctx // it is used for one handshake
}

// Sign implements crypto.Signer.
func (s signer) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) (signature []byte, err error) {
	if ended := notify.InTurn(s.ctx, func() { signature, err = s.Signer.Sign(random, digest, opts) }); ended != nil {
		return nil, ended
	}
	return signature, err
}
