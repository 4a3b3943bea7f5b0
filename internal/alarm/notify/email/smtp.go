package email

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// Time limits for the answers of a server (RFC 5321, 4.5.3.2). With shorter ones, a server
// that answers late accepts the same mail again and again.
const (
	commandLimit = 5 * time.Minute
	dataLimit    = 2 * time.Minute
	blockLimit   = 3 * time.Minute
	endLimit     = 10 * time.Minute
	// quitLimit is short, because the server has already accepted the mail.
	quitLimit = time.Second
	// sessionLimit limits all commands together, without the answer to the mail itself.
	sessionLimit = 30 * time.Minute
)

// maxRead limits what is read from a server. The SMTP client reads answers of any length.
const maxRead = 64 << 10

// session is one connection to a mail server.
type session struct {
	*smtp.Client

	conn    net.Conn
	timeout time.Duration
	clock   clock.PassiveClock
	// ends is when the last command must be answered.
	ends time.Time
	// keep prevents that a change or a shutdown closes the connection. It reports false if
	// that has already happened.
	keep func() bool
}

// submit sends a mail to all recipients or to none. It ignores errors after the server
// has accepted the mail. It returns notify.ErrInterrupted if notify.Early ended before the
// mail was complete.
func (n *Notifier) submit(ctx context.Context, m *mail.Msg) error {
	early := notify.Early(ctx)
	conn, err := n.client.Dial(early, n.config.address())
	if err != nil {
		return interrupted(early, err)
	}
	hangUp := func() { _ = conn.Close() }
	defer hangUp()
	// The SMTP client does not support contexts, so the end of ctx closes the connection.
	defer context.AfterFunc(ctx, hangUp)()
	s := &session{
		conn: &limitedConn{Conn: conn, left: maxRead}, timeout: n.config.Timeout, clock: n.config.Clock,
		ends: n.config.Clock.Now().Add(sessionLimit), keep: context.AfterFunc(early, hangUp),
	}
	defer s.keep()
	if err := n.open(early, s); err != nil {
		return interrupted(early, err)
	}
	if err := n.address(s); err != nil {
		return interrupted(early, err)
	}
	return s.transfer(early, m)
}

// interrupted returns the reason why a session failed before the mail was complete.
func interrupted(early context.Context, err error) error {
	if early.Err() != nil {
		return notify.ErrInterrupted
	}
	return err
}

// allow limits the time for what the session does next.
func (s *session) allow(limit time.Duration) {
	if s.timeout > 0 {
		limit = min(limit, s.timeout)
	}
	until := s.clock.Now().Add(limit)
	if until.After(s.ends) {
		until = s.ends
	}
	_ = s.conn.SetDeadline(until) // on an error, the connection is closed
}

// open starts a session: greeting, encryption and login.
func (n *Notifier) open(ctx context.Context, s *session) error {
	config := n.client.TLSConfig(ctx, n.config.Host)
	s.allow(commandLimit)
	conn := s.conn
	if n.config.TLS == v1alpha1.MailImplicitTLS {
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secured
	}
	var err error
	if s.Client, err = smtp.NewClient(conn, n.config.Host); err != nil {
		return at(greeting, err)
	}
	s.allow(commandLimit)
	if err := s.Hello(n.helloName(conn.LocalAddr())); err != nil {
		return at(hello, err)
	}
	if n.config.TLS == v1alpha1.MailStartTLS {
		if offered, _ := s.Extension("STARTTLS"); !offered {
			return at(greeting, errNoStartTLS)
		}
		s.allow(commandLimit)
		if err := s.StartTLS(config); err != nil {
			return at(greeting, err)
		}
	}
	s.allow(commandLimit)
	return n.logIn(s.Client)
}

// helloName returns the operator's name in the greeting. Without one it is the operator's
// address, as RFC 5321, 4.1.4 demands.
func (n *Notifier) helloName(local net.Addr) string {
	if n.config.HelloName != "" {
		return n.config.HelloName
	}
	address, err := netip.ParseAddrPort(local.String())
	switch ip := address.Addr().Unmap().WithZone(""); {
	case err != nil:
		return "localhost"
	case ip.Is4():
		return "[" + ip.String() + "]"
	default:
		return "[IPv6:" + ip.String() + "]"
	}
}

// logIn uses PLAIN, or LOGIN if the server does not offer PLAIN. The API allows
// credentials only with encryption.
func (n *Notifier) logIn(session *smtp.Client) error {
	if n.config.Username == "" {
		return nil
	}
	auth := smtp.PlainAuth("", n.config.Username, n.config.Password, n.config.Host, false)
	switch _, offered := session.Extension("AUTH"); {
	case strings.Contains(offered, "PLAIN"):
	case strings.Contains(offered, "LOGIN"):
		auth = smtp.LoginAuth(n.config.Username, n.config.Password, n.config.Host, false)
	default:
		return at(login, errNoAuth)
	}
	if err := session.Auth(auth); err != nil {
		return at(login, err)
	}
	return nil
}

// address names the sender and the recipients.
func (n *Notifier) address(s *session) error {
	s.allow(commandLimit)
	if err := s.Mail(n.config.From); err != nil {
		return at(sender, err)
	}
	for i, to := range n.config.To {
		s.allow(commandLimit)
		if err := s.Rcpt(to); err != nil {
			return at(fmt.Sprintf(recipient, i), err)
		}
	}
	return nil
}

// transfer sends the mail. Its last line makes it complete: from then on, only the end of
// the operator's grace period closes the connection.
func (s *session) transfer(early context.Context, m *mail.Msg) error {
	s.allow(dataLimit)
	w, err := s.Data()
	if err == nil {
		_, err = m.WriteTo(&blocks{session: s, to: w})
	}
	if err != nil {
		return interrupted(early, at(content, err))
	}
	if !s.keep() {
		return notify.ErrInterrupted
	}
	s.ends = s.clock.Now().Add(endLimit)
	s.allow(endLimit)
	if err := w.Close(); err != nil {
		return at(content, err)
	}
	s.allow(quitLimit)
	_ = s.Quit()
	return nil
}

// blocks limits the time of each part of a mail.
type blocks struct {
	session *session
	to      io.Writer
}

// Write implements io.Writer.
func (b *blocks) Write(p []byte) (int, error) {
	b.session.allow(blockLimit)
	return b.to.Write(p)
}

// limitedConn is a connection from which a limited number of bytes can be read.
type limitedConn struct {
	net.Conn

	left int
}

// Read implements io.Reader.
func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// Steps of a session. Each is the end of a sentence about a server that refuses it.
const (
	greeting  = "the connection: check spec.email.host"
	hello     = "the operator's name: ask an administrator to set --smtp-hello-name"
	login     = "the user name or password: correct the Secret"
	sender    = "spec.email.from: correct it, or permit the user to send for it"
	recipient = "spec.email.to[%d]: correct it"
	content   = "this message: it is dropped"
)

var (
	errNoStartTLS = errors.New("the server does not offer STARTTLS")
	errNoAuth     = errors.New("the server offers neither PLAIN nor LOGIN")
	errTooMuch    = errors.New("the server's answers are too long")
)

// stepError is an error at a step of a session.
type stepError struct {
	step string
	err  error
}

func at(step string, err error) error { return &stepError{step, err} }

// Error returns the step. It hides the server's text, which is untrusted.
func (e *stepError) Error() string { return "SMTP: " + e.step }

// Unwrap returns the cause.
func (e *stepError) Unwrap() error { return e.err }

// sendError explains a failed session. A retry can help after a reply of 4xx, but not
// after one of 5xx (RFC 5321, 4.2.1). The reply is shown only if it is about the mail, and without
// what it repeats of the mail and the login.
func (n *Notifier) sendError(err error, mail *mailBody) *notify.SendError {
	step, isStep := errors.AsType[*stepError](err)
	reply, isReply := errors.AsType[*textproto.Error](err)
	switch {
	case errors.Is(err, errNoStartTLS):
		return stopped("the mail server does not offer STARTTLS: set spec.email.tls to the encryption that it offers")
	case errors.Is(err, errNoAuth):
		return stopped("the mail server offers no login with a password: set spec.email.tls, or remove spec.email.credentialsSecretRef")
	case !isStep || !isReply:
		return httppost.ConnectionError(err)
	}
	const permanent = 500
	failure := &notify.SendError{
		Class:  notify.Stop,
		Reason: v1alpha1.ReasonDeliveryFailing,
		Text:   fmt.Sprintf("the mail server refuses %s (SMTP %d)", step.step, reply.Code),
	}
	switch {
	case reply.Code < permanent:
		failure.Class = notify.Retry
		failure.Text = fmt.Sprintf("the mail server cannot accept the message now%s (SMTP %d)", notify.Retried, reply.Code)
	case step.step == content:
		failure.Class = notify.Reject
		failure.Answer = notify.Excerpt([]byte(reply.Msg), append(n.login(), mail.Subject, mail.Text))
	}
	return failure
}

// login returns the login in the forms in which a server gets it.
func (n *Notifier) login() []string {
	user, password := n.config.Username, n.config.Password
	all := []string{user, password}
	for _, sent := range []string{user, password, "\x00" + user + "\x00" + password} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(sent)))
	}
	return all
}

func stopped(text string) *notify.SendError {
	return &notify.SendError{Class: notify.Stop, Reason: v1alpha1.ReasonDeliveryFailing, Text: text}
}
