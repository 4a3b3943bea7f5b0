package receiver_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// pair returns a certificate that signs itself, and its key, in PEM.
func pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	own := server.TLS.Certificates[0]
	raw, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// send sends a message with what is built from the spec.
func send(t *testing.T, built notify.Receiver) error {
	t.Helper()
	body, err := built.Notifier.Render(message.Message{Title: "a", Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	return built.Notifier.Send(t.Context(), "key", body)
}

func TestAClientCertificateIsShownToTheServer(t *testing.T) {
	cert, key := pair(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.TLS.PeerCertificates[0].Raw})
		if !bytes.Equal(shown, cert) {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	from := secrets{data: map[string][]byte{
		"ca.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		"tls.crt": cert, "tls.key": key,
	}}
	const withCA = "url: '%', caSecretRef: {NSname: s, key: ca.crt}"
	for _, sink := range []string{"webhook", "alertmanager"} {
		spec := sink + ": {" + strings.Replace(withCA, "%", server.URL, 1)
		if err := send(t, buildFrom(t, from, "", "ops", spec+", clientCertSecretRef: {NSname: s}}")); err != nil {
			t.Errorf("%s: %v", sink, err)
		}
		err := send(t, buildFrom(t, from, "", "ops", spec+"}"))
		if err == nil || !strings.Contains(err.Error(), "check whether it demands a client certificate, and clientCertSecretRef") {
			t.Errorf("%s without a certificate: %v", sink, err)
		}
	}
}

func TestAnInvalidClientCertificateIsNotRevealed(t *testing.T) {
	cert, key := pair(t)
	_, another := pair(t)
	for name, data := range map[string]map[string][]byte{
		"no key":         {"tls.crt": cert},
		"no certificate": {"tls.key": key},
		"no PEM":         {"tls.crt": []byte("hunter2"), "tls.key": []byte("hunter2")},
		"swapped":        {"tls.crt": key, "tls.key": cert},
		"a cut key":      {"tls.crt": cert, "tls.key": another[:len(another)/2]},
	} {
		err := buildError(t, secrets{data: data}, "webhook: {url: 'https://a.example', clientCertSecretRef: {name: s}}")
		if want := "Secret shop/s: the keys tls.crt and tls.key must contain a certificate and its private key in PEM"; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// largeCertificate returns a certificate with an RSA key of that many bits, without primes, in PEM. It
// is not valid: a real key of that length would take hours to make.
func largeCertificate(t *testing.T, bits uint) []byte {
	t.Helper()
	_, signer, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), bits-1), big.NewInt(1))
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)},
		&rsa.PublicKey{N: n, E: 65537}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// A signature with such a key, or its verification, would take minutes to hours of CPU time
// that nothing interrupts.
func TestKeysOfCertificatesAreBounded(t *testing.T) {
	cert, key := pair(t)
	large := largeCertificate(t, 16384)
	const shown, trusted = "webhook: {url: 'https://a.example', clientCertSecretRef: {name: s}}", "webhook: {url: 'https://a.example', caSecretRef: {name: s, key: ca.crt}}"
	for name, tc := range map[string]struct {
		spec string
		data map[string][]byte
	}{
		"a large key":            {shown, map[string][]byte{"tls.crt": large, "tls.key": key}},
		"a large key in a chain": {shown, map[string][]byte{"tls.crt": append(bytes.Clone(cert), large...), "tls.key": key}},
		"a long private key":     {shown, map[string][]byte{"tls.crt": cert, "tls.key": bytes.Repeat(key, 100)}},
		"a long chain":           {shown, map[string][]byte{"tls.crt": bytes.Repeat(cert, 200), "tls.key": key}},
		"a large authority":      {trusted, map[string][]byte{"ca.crt": append(bytes.Clone(cert), large...)}},
		"too many authorities":   {trusted, map[string][]byte{"ca.crt": bytes.Repeat(cert, 1000)}},
	} {
		err := buildError(t, secrets{data: tc.data}, tc.spec)
		if err == nil || !strings.Contains(err.Error(), "RSA keys have at most 4096 bits") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOnlyClusterAlarmReceiversMayUseLongKeys(t *testing.T) {
	const trusted = "webhook: {url: 'https://a.example', caSecretRef: {NSname: s, key: ca.crt}}"
	for bits, allowed := range map[uint]map[string]bool{
		4096: {"shop": true, "": true}, 8192: {"shop": false, "": true}, 16384: {"shop": false, "": false},
	} {
		from := secrets{data: map[string][]byte{"ca.crt": largeCertificate(t, bits)}}
		for namespace, want := range allowed {
			if _, err := tryBuild(t, from, namespace, "ops", trusted); (err == nil) != want {
				t.Errorf("%d bits, namespace %q: got %v, want allowed %v", bits, namespace, err, want)
			}
		}
	}
}

// A signature with three primes takes several times as long.
func TestAKeyOfThreePrimesIsRefused(t *testing.T) {
	key, err := rsa.GenerateMultiPrimeKey(rand.Reader, 3, 1024) //nolint:staticcheck // a user can have such a key
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	from := secrets{data: map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}}
	err = buildError(t, from, "webhook: {url: 'https://a.example', clientCertSecretRef: {name: s}}")
	if want := "Secret shop/s: the RSA key in tls.key has 3 primes: use one with two, which is the default of all tools"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOAuth2AndTheHeaderAuthorizationExcludeEachOther(t *testing.T) {
	const spec = "webhook: {url: 'https://a.example', headersSecretRef: {name: s}, " +
		"oauth2: {tokenURL: 'https://t.example/', clientID: a, clientSecretRef: {name: s, key: authorization}}}"
	err := buildError(t, secrets{data: map[string][]byte{"authorization": []byte("hunter2")}}, spec)
	if err == nil || !strings.Contains(err.Error(), "remove one of them") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestTheTokenServerOfATenantMustHaveAnAllowedAddress(t *testing.T) {
	const spec = "webhook: {url: 'https://a.example', oauth2: {tokenURL: 'https://10.0.0.1/', clientID: a, clientSecretRef: {name: s, key: url}}}"
	if err := buildError(t, secrets{}, spec); err == nil || !strings.Contains(err.Error(), "may not use addresses in this range") {
		t.Errorf("got %v", err)
	}
}

// The proxy sees the address of the receiver, and connects to it.
func TestAClusterAlarmReceiverUsesItsProxy(t *testing.T) {
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.Host)
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(proxy.Close)
	if err := send(t, build(t, "", "ops", "webhook: {url: 'http://hook.example/secret'}, proxyURL: '"+proxy.URL+"'")); err != nil {
		t.Errorf("through the proxy: %v", err)
	}
	err := send(t, build(t, "", "ops", "webhook: {url: 'https://hook.example/secret'}, proxyURL: '"+proxy.URL+"'"))
	if err == nil || err.Error() != "the proxy refuses to connect to the receiver: check its rules" {
		t.Errorf("a refused connection: %v", err)
	}
	if want := "POST hook.example,CONNECT hook.example:443"; strings.Join(seen, ",") != want {
		t.Errorf("the proxy saw %q, want %s", seen, want)
	}
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Close()
	err = send(t, build(t, "", "ops", "webhook: {url: 'https://hook.example/secret'}, proxyURL: '"+proxy.URL+"'"))
	if err == nil || !strings.HasPrefix(err.Error(), "the proxy cannot be reached: check spec.proxyURL") || strings.Contains(err.Error(), u.Port()) {
		t.Errorf("a proxy that is down: %v", err)
	}
}

// asking is a server with TLS that asks for a client certificate, and counts those it got.
type asking struct {
	*httptest.Server
	certificates, requests atomic.Int64
}

func newAsking(t *testing.T, handler http.HandlerFunc) *asking {
	t.Helper()
	a := &asking{}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.requests.Add(1)
		if len(r.TLS.PeerCertificates) > 0 {
			a.certificates.Add(1)
		}
		handler(w, r)
	}))
	a.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	a.EnableHTTP2 = true
	a.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

// tunnel connects to the server that the client names, as a proxy does.
func tunnel(w http.ResponseWriter, r *http.Request) {
	server, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = server.Close()
		return
	}
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
}

// A certificate shows others who the client is. Only the receiver needs to know.
func TestAClientCertificateIsShownToNeitherTheTokenServerNorTheProxy(t *testing.T) {
	cert, key := pair(t)
	hook := newAsking(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" || len(r.TLS.PeerCertificates) == 0 || r.ProtoMajor != 1 {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	tokens := newAsking(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"access_token": "a", "token_type": "Bearer"}`)
	})
	proxy := newAsking(t, tunnel)
	from := secrets{data: map[string][]byte{
		"ca.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
		"tls.crt": cert, "tls.key": key, "client": []byte("hunter2"),
	}}
	spec := "webhook: {url: '" + hook.URL + "', caSecretRef: {NSname: s, key: ca.crt}, clientCertSecretRef: {NSname: s}, " +
		"oauth2: {tokenURL: '" + tokens.URL + "', clientID: a, clientSecretRef: {NSname: s, key: client}}}"
	for name, spec := range map[string]string{"direct": spec, "through a proxy": spec + ", proxyURL: '" + proxy.URL + "'"} {
		if err := send(t, buildFrom(t, from, "", "ops", spec)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, tc := range map[string]struct {
		server                 *asking
		requests, certificates int64
	}{"receiver": {hook, 2, 2}, "token server": {tokens, 2, 0}, "proxy": {proxy, 2, 0}} {
		if requests, certificates := tc.server.requests.Load(), tc.server.certificates.Load(); requests != tc.requests || certificates != tc.certificates {
			t.Errorf("the %s saw %d certificates in %d requests, want %d in %d", name, certificates, requests, tc.certificates, tc.requests)
		}
	}
}
