package email

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
)

// submit has the server take a message, for all addressees or for none. Once it has,
// what goes wrong no longer matters.
func (n *Notifier) submit(ctx context.Context, m *mail.Msg) error {
	conn, err := n.client.Dial(ctx, n.config.address())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// SMTP knows no contexts: at the end of this one the connection is closed.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	session, err := n.open(ctx, conn)
	if err != nil {
		return err
	}
	if err := n.hand(session, m); err != nil {
		return err
	}
	_ = session.Quit()
	return nil
}

// open greets the server, encrypts and logs in.
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

// logIn uses PLAIN, or LOGIN where the server knows nothing better. The API demands
// that the connection is encrypted then.
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

func (n *Notifier) hand(session *smtp.Client, m *mail.Msg) error {
	if err := session.Mail(n.config.From); err != nil {
		return at(sender, err)
	}
	for i, to := range n.config.To {
		if err := session.Rcpt(to); err != nil {
			return at(fmt.Sprintf(addressee, i), err)
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
