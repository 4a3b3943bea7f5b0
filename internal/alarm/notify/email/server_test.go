package email_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

const (
	username = "alarms"
	password = "secret-password"
)

// mailbox is a mail server. It answers with the results of its hooks.
type mailbox struct {
	mail, rcpt, data func() error

	mu     sync.Mutex
	mails  []received
	logins int
}

type received struct {
	// greeted is the client's name in EHLO.
	greeted, from string
	to            []string
	raw           []byte
}

func (m *mailbox) all() []received {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mails
}

// certificate returns the test certificate of net/http, for example.com and 127.0.0.1.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.TLS.Certificates[0], roots
}

// start starts the server and returns its port. Without config there is no encryption.
// With implicit, connections are encrypted from the beginning.
func (m *mailbox) start(t testing.TB, config *tls.Config, implicit bool) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{box: m, received: received{greeted: c.Hostname()}}, nil
	}))
	server.TLSConfig, server.Domain = config, "localhost"
	served := listener
	if implicit {
		served = tls.NewListener(listener, config)
	}
	go func() { _ = server.Serve(served) }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(number)
}

type session struct {
	box *mailbox
	received
}

func (s *session) Reset()        { s.received = received{greeted: s.greeted} }
func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return call(s.box.mail)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return call(s.box.rcpt)
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := call(s.box.data); err != nil {
		return err
	}
	s.raw = raw
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.mails = append(s.box.mails, s.received)
	return nil
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, pass string) error {
		if user != username || pass != password {
			return smtp.ErrAuthFailed
		}
		s.box.mu.Lock()
		defer s.box.mu.Unlock()
		s.box.logins++
		return nil
	}), nil
}

func call(hook func() error) error {
	if hook == nil {
		return nil
	}
	return hook()
}

func reply(code int) func() error {
	return func() error { return &smtp.SMTPError{Code: code, Message: "secret answer"} }
}
