// Package endpoint serves the operator's own ports, which every pod of a cluster may reach without
// credentials. It bounds what clients can use: connections, the size of headers, and time.
package endpoint

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// maxConnections is the number of open connections of a port. Each needs up to 0.2 MB
	// during a TLS handshake.
	maxConnections = 64
	// maxHeader is the size of the headers of a request, in bytes. It has space for a token of 16 KiB.
	// net/http adds 4 KiB.
	maxHeader = 20 << 10

	// headerTimeout limits the time from the connection to the end of the headers.
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	// idleTimeout lets a Prometheus that scrapes every minute keep its connection.
	idleTimeout = 90 * time.Second
	// shutdownTimeout is the time to finish responses when the operator stops.
	shutdownTimeout = 5 * time.Second
)

// New returns a server for a manager. It listens on the address, which is an error if the address
// cannot be used, and serves when the manager starts it. With secure, it serves HTTPS with a
// certificate that it makes.
func New(ctx context.Context, name, address string, secure bool, handler http.Handler) (*manager.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	limited := limitConnections(listener, maxConnections)
	if secure {
		certificate, err := newCertificate()
		if err != nil {
			_ = listener.Close()
			return nil, fmt.Errorf("make a certificate for %s: %w", name, err)
		}
		limited = tls.NewListener(limited, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	}
	return &manager.Server{Name: name, Listener: limited, ShutdownTimeout: new(shutdownTimeout), Server: &http.Server{
		Handler: handler,
		// A connection of HTTP/2 has 250 requests at a time.
		Protocols:         http1(),
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		// Clients could fill the log with their failures.
		ErrorLog: log.New(io.Discard, "", 0),
	}}, nil
}

func http1() *http.Protocols {
	only := &http.Protocols{}
	only.SetHTTP1(true)
	return only
}

// never is the end of a certificate without one: RFC 5280, section 4.1.2.5.
var never = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// newCertificate returns a certificate that no authority signed. Its key is an elliptic curve, because a
// handshake with an RSA key needs 30 times as much CPU.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: never,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
