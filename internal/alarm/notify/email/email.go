// Package email sends messages as plain-text mail through a mail server, with SMTP. It
// does not deliver to the recipients' own servers.
package email

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval keeps mailboxes readable. Messages within it become a digest.
const interval = 10 * time.Second

var _ Connector = (*httppost.Client)(nil)

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier. It reaches the same addresses as the client and trusts the
// same certificate authorities.
func New(client Connector, c Config) (*Notifier, error) {
	if _, err := compose(&c, "", &mailBody{}); err != nil {
		return nil, errors.New("from and to must be mail addresses, for example alarms@example.com")
	}
	return &Notifier{client: client, config: c}, nil
}

// Limit belongs to one receiver. If receivers with the same server and recipients shared
// it, a tenant could hold back the administrator's mail, because both are easy to guess.
func (n *Notifier) Limit() notify.Limit { return notify.Limit{Every: interval} }

// Format of the bodies.
func (n *Notifier) Format() string { return "email" }

// Send passes a mail to the server. A retry has the same Message-ID, by which many mail
// servers recognize duplicates.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	var b mailBody
	if err := json.Unmarshal(body, &b); err != nil {
		return err
	}
	m, err := compose(&n.config, key, &b)
	if err != nil {
		return err
	}
	err = n.submit(ctx, m)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // submit closed the connection for this reason
		return httppost.ConnectionError(ctx.Err())
	case errors.Is(err, notify.ErrInterrupted):
		return err
	default:
		return n.sendError(err, &b)
	}
}

// Clients show the start of a subject, which is folded into lines of 78 characters
// (RFC 5322, 2.1.1). The text is limited so that a digest does not fill mailboxes.
const (
	maxSubject = 200
	maxText    = 64000
)

// Render returns a subject, the text, and a footer as the mail's signature.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	b := mailBody{Subject: fit.Line(notify.Headline(&m), maxSubject, nil), Date: m.LastSeen.UTC()}
	if m.Group != nil {
		b.Group = m.Group.Key
	}
	if text := fit.Text(strings.TrimSpace(m.Text), maxText, nil); text != "" {
		b.Text = text + "\n\n"
	}
	b.Text += "-- \n" + fit.Line(notify.Footer(&m), maxSubject, nil) + "\n"
	return json.Marshal(b)
}

// compose returns the mail. It encodes headers, so that no text can add one.
func compose(c *Config, key string, b *mailBody) (*mail.Msg, error) {
	m := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := m.From(c.From); err != nil {
		return nil, err
	}
	if err := m.To(c.To...); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(c.From, "@")
	m.SetMessageIDWithValue(messageID(key, domain))
	if b.Group != "" { // clients show replies to the same mail together, even if it does not exist
		m.SetGenHeader(mail.HeaderInReplyTo, "<"+messageID(b.Group, domain)+">")
		m.SetGenHeader(mail.HeaderReferences, "<"+messageID(b.Group, domain)+">")
	}
	m.SetDateWithValue(b.Date)
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: prevents automatic replies
	m.Subject(b.Subject)
	m.SetBodyString(mail.TypeTextPlain, b.Text)
	return m, nil
}

// messageID returns the same ID for the same key, without revealing the key.
func messageID(key, domain string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s@%s", hex.EncodeToString(sum[:16]), domain)
}
