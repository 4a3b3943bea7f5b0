package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// submit sends a mail to all recipients or to none. It ignores errors after the server
// has accepted the mail.
func (n *Notifier) submit(ctx context.Context, m *mail.Msg) error {
	conn, err := n.client.Dial(ctx, n.config.address())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// The SMTP client does not support contexts, so the end of ctx closes the connection.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	session, err := n.open(ctx, conn)
	if err != nil {
		return err
	}
	if err := n.transfer(session, m); err != nil {
		return err
	}
	_ = session.Quit()
	return nil
}

// open starts a session: greeting, encryption and login.
func (n *Notifier) open(ctx context.Context, conn net.Conn) (*smtp.Client, error) {
	config := n.client.TLSConfig()
	config.ServerName = n.config.Host
	if n.config.TLS == v1alpha1.MailImplicitTLS {
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secured
	}
	session, err := smtp.NewClient(conn, n.config.Host)
	if err != nil {
		return nil, at(greeting, err)
	}
	if n.config.TLS == v1alpha1.MailStartTLS {
		if offered, _ := session.Extension("STARTTLS"); !offered {
			return nil, at(greeting, errNoStartTLS)
		}
		if err := session.StartTLS(config); err != nil {
			return nil, at(greeting, err)
		}
	}
	return session, n.logIn(session)
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

func (n *Notifier) transfer(session *smtp.Client, m *mail.Msg) error {
	if err := session.Mail(n.config.From); err != nil {
		return at(sender, err)
	}
	for i, to := range n.config.To {
		if err := session.Rcpt(to); err != nil {
			return at(fmt.Sprintf(recipient, i), err)
		}
	}
	w, err := session.Data()
	if err == nil {
		err = write(w, m)
	}
	if err != nil {
		return at(content, err)
	}
	return nil
}

func write(w io.WriteCloser, m *mail.Msg) error {
	if _, err := m.WriteTo(w); err != nil {
		return err
	}
	return w.Close()
}

// Steps of a session. Each is the end of a sentence about a server that refuses it.
const (
	greeting  = "the connection: check spec.email.host"
	login     = "the user name or password: correct the Secret"
	sender    = "spec.email.from: correct it, or permit the user to send for it"
	recipient = "spec.email.to[%d]: correct it"
	content   = "this message: it is dropped"
)

var (
	errNoStartTLS = errors.New("the server does not offer STARTTLS")
	errNoAuth     = errors.New("the server offers neither PLAIN nor LOGIN")
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
// after one of 5xx (RFC 5321, 4.2.1).
func sendError(err error) *notify.SendError {
	step, isStep := errors.AsType[*stepError](err)
	reply, isReply := errors.AsType[*textproto.Error](err)
	switch {
	case errors.Is(err, errNoStartTLS):
		return parked("the mail server does not offer STARTTLS: set spec.email.tls to the encryption that it offers")
	case errors.Is(err, errNoAuth):
		return parked("the mail server offers no login with a password: set spec.email.tls, or remove spec.email.credentialsSecretRef")
	case !isStep || !isReply:
		return httppost.ConnectionError(err)
	}
	const permanent = 500
	failure := &notify.SendError{
		Class:  notify.Park,
		Reason: v1alpha1.ReasonDeliveryFailing,
		Text:   fmt.Sprintf("the mail server refuses %s (SMTP %d)", step.step, reply.Code),
	}
	switch {
	case reply.Code < permanent:
		failure.Class = notify.Retry
		failure.Text = fmt.Sprintf("the mail server cannot accept the message now: the operator retries it (SMTP %d)", reply.Code)
	case step.step == content:
		failure.Class = notify.Reject
	}
	return failure
}

func parked(text string) *notify.SendError {
	return &notify.SendError{Class: notify.Park, Reason: v1alpha1.ReasonDeliveryFailing, Text: text}
}
