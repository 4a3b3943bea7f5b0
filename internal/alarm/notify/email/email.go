// Package email sends messages by e-mail, as plain text, through a mail server that is
// spoken to with SMTP.
//
// It does not deliver to the servers of the addressees: that is for the mail server to
// do, which may queue.
package email

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval keeps mailboxes readable; what is beyond it comes as a digest.
const interval = 10 * time.Second

// Config says which server takes messages for whom.
type Config struct {
	Host string
	// Port is that which is usual for TLS if it is 0.
	Port int32
	TLS  v1alpha1.MailTLS
	From string
	To   []string
	// Username and Password are secrets; without them the server is spoken to without
	// logging in.
	Username, Password string
}

// Notifier sends through one server.
type Notifier struct {
	client *httppost.Client
	config Config
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier that connects as the client does: to the same addresses, and
// trusting the same authorities.
func New(client *httppost.Client, c Config) (*Notifier, error) {
	if _, err := compose(&c, "", &letter{}); err != nil {
		return nil, errors.New("from and to must be addresses, for example alarms@example.com")
	}
	return &Notifier{client: client, config: c}, nil
}

// Limit is shared by the receivers with the same addressees.
func (n *Notifier) Limit() notify.Limit {
	sum := sha256.Sum256([]byte(n.config.Host + "\x00" + strings.Join(n.config.To, "\x00")))
	return notify.Limit{Key: "email:" + hex.EncodeToString(sum[:]), Every: interval}
}

// Format of the bodies.
func (n *Notifier) Format() string { return "email" }

// Send hands a letter to the server. Sent again, it has the same Message-ID, by which
// many mail servers know it.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	var l letter
	if err := json.Unmarshal(body, &l); err != nil {
		return err
	}
	m, err := compose(&n.config, key, &l)
	if err != nil {
		return err
	}
	err = n.submit(ctx, m)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil { // the connection was closed for it
		return httppost.ConnectionError(ctx.Err())
	}
	return wordError(err)
}

// compose makes of a letter what is sent: headers are encoded, so that no text can add
// one.
func compose(c *Config, key string, l *letter) (*mail.Msg, error) {
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := m.From(c.From); err != nil {
		return nil, err
	}
	if err := m.To(c.To...); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(c.From, "@")
	m.SetMessageIDWithValue(messageID(key, domain))
	if l.Group != "" { // mail clients show what replies to one letter together, be it there or not
		m.SetGenHeader(mail.HeaderInReplyTo, "<"+messageID(l.Group, domain)+">")
		m.SetGenHeader(mail.HeaderReferences, "<"+messageID(l.Group, domain)+">")
	}
	m.SetDateWithValue(l.Date)
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no holiday notice answers it
	m.Subject(l.Subject)
	m.SetBodyString(mail.TypeTextPlain, l.Text)
	return m, nil
}

// messageID is the same for the same key, of which it tells nothing.
func messageID(key, domain string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s@%s", hex.EncodeToString(sum[:16]), domain)
}

// ports are those usual for submission (RFC 8314) and for relaying within a network.
var ports = map[v1alpha1.MailTLS]int32{v1alpha1.MailStartTLS: 587, v1alpha1.MailImplicitTLS: 465, v1alpha1.MailNoTLS: 25}

func (c *Config) address() string {
	port := c.Port
	if port == 0 {
		port = ports[c.TLS]
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(port)))
}
