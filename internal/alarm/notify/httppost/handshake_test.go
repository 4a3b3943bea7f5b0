package httppost_test

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/dialguard"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/dns"
)

// newTLSServer starts a server for the names example.com and 127.0.0.1, and returns a pool that trusts it.
func newTLSServer(t *testing.T, handler http.HandlerFunc, change func(*tls.Config)) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Listener, server.Config.ErrorLog = listener, log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	server.URL = strings.Replace(server.URL, "0.0.0.0", "127.0.0.1", 1)
	change(server.TLS)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server, roots
}

func accept(http.ResponseWriter, *http.Request) {}

// A guarded client verifies certificates itself.
func TestCertificatesOfServersAreVerified(t *testing.T) {
	server, roots := newTLSServer(t, accept, func(*tls.Config) {})
	resolver := dns.NewResolver(t, map[string]string{"example.com": "127.0.0.1", "other.example": "127.0.0.1"})
	for name, tc := range map[string]struct {
		host string
		// want is a part of the error; empty means none.
		want  string
		roots *x509.CertPool
	}{
		"address":           {"127.0.0.1", "", roots},
		"name":              {"example.com", "", roots},
		"another name":      {"other.example", "is for another host name", roots},
		"another address":   {"127.0.0.2", "is for another host name", roots},
		"another authority": {"example.com", "signed by an unknown authority", x509.NewCertPool()},
		"public authority":  {"example.com", "signed by an unknown authority", nil},
	} {
		for kind, guard := range map[string]*dialguard.Guard{"guarded": allowing(loopback), "not guarded": nil} {
			t.Run(name+", "+kind, func(t *testing.T) {
				client := httppost.New(httppost.Config{Guard: guard, Resolver: resolver, Roots: tc.roots})
				t.Cleanup(client.Close)
				err := post(t, client, strings.Replace(server.URL, "127.0.0.1", tc.host, 1))
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Text, tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		}
	}
}

func TestALongChainOfCertificatesIsRefused(t *testing.T) {
	for length, want := range map[int]string{10: "", 11: "the receiver shows more than 10 certificates: remove those that it does not need"} {
		server, roots := newTLSServer(t, accept, func(c *tls.Config) {
			c.Certificates[0].Certificate = slices.Repeat(c.Certificates[0].Certificate[:1], length)
		})
		client := httppost.New(httppost.Config{Guard: allowing(loopback), Roots: roots})
		t.Cleanup(client.Close)
		err := post(t, client, server.URL)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Text, want) {
			t.Errorf("%d certificates: got %v, want %q", length, err, want)
		}
	}
}

// counting is a key that counts its signatures.
type counting struct {
	crypto.Signer
	signatures *atomic.Int64
}

func (c counting) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	c.signatures.Add(1)
	return c.Signer.Sign(random, digest, opts)
}

func TestANewConnectionToAKnownServerNeedsNoSignature(t *testing.T) {
	var unknown atomic.Int64
	server, roots := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 {
			unknown.Add(1)
		}
		w.Header().Set("Connection", "close")
	}, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	for kind, guard := range map[string]*dialguard.Guard{"guarded": allowing(loopback), "not guarded": nil} {
		signatures := &atomic.Int64{}
		certificate := server.TLS.Certificates[0]
		certificate.PrivateKey = counting{certificate.PrivateKey.(crypto.Signer), signatures}
		client := httppost.New(httppost.Config{Guard: guard}).With(func(c *httppost.Config) { c.Roots, c.Certificate = roots, &certificate })
		t.Cleanup(client.Close)
		for range 5 {
			if err := post(t, client, server.URL); err != nil {
				t.Error(err)
			}
		}
		if got := signatures.Load(); got != 1 || unknown.Load() > 0 {
			t.Errorf("%s: %d signatures for 5 connections, and %d requests without a certificate", kind, got, unknown.Load())
		}
	}
}
