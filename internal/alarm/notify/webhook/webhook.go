// Package webhook posts messages as JSON to any HTTP server, as they are or as
// CloudEvents. It can sign them. docs/webhook.md describes the requests.
package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// Config configures a Notifier. URL, headers and key may be values of a Secret. The
// Notifier ignores white space around them.
type Config struct {
	URL     string
	Headers map[string][]byte
	// Format is JSON by default.
	Format v1alpha1.WebhookFormat
	// Sign means that each request is signed with SigningKey.
	Sign       bool
	SigningKey string
	// Clock returns the time of signatures.
	Clock clock.PassiveClock
}

// Notifier posts to one URL.
type Notifier struct {
	client   *httppost.Client
	url      string
	header   http.Header
	envelope *envelope // nil without CloudEvents
	signer   *standardwebhooks.Webhook
	clock    clock.PassiveClock
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier. Errors do not reveal values.
func New(client *httppost.Client, c Config) (*Notifier, error) {
	n := &Notifier{client: client, url: strings.TrimSpace(c.URL), clock: c.Clock}
	if err := httppost.CheckURL(n.url); err != nil {
		return nil, err
	}
	var err error
	if n.header, err = httppost.NewHeader(c.Headers); err != nil {
		return nil, err
	}
	if c.Sign {
		if n.signer, err = newSigner(c.SigningKey); err != nil {
			return nil, err
		}
	}
	switch c.Format {
	case v1alpha1.WebhookCloudEvents:
		n.envelope = structured
	case v1alpha1.WebhookCloudEventsBinary:
		n.envelope = binary
	case v1alpha1.WebhookJSON:
	}
	return n, nil
}

// Format of the bodies. Send adds the envelope, so it does not depend on the envelope.
func (n *Notifier) Format() string { return "webhook" }

// Render returns the message as JSON. Without Events, the list is empty and not null.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	if m.Events == nil {
		m.Events = []message.Event{}
	}
	return json.Marshal(m)
}

// Send posts the body. Retries are identical, except for the time of the signature.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	header := n.header.Clone()
	if n.envelope != nil {
		wrapped, attributes, err := n.envelope.wrap(ctx, key, body)
		if err != nil {
			return unusable("this message cannot be sent as a CloudEvent")
		}
		body = wrapped
		maps.Copy(header, attributes)
	}
	if n.signer != nil {
		if err := sign(n.signer, header, key, n.clock.Now(), body); err != nil {
			return unusable("this message cannot be signed")
		}
	}
	return n.client.Post(ctx, httppost.Request{URL: n.url, Header: header, Key: key, Body: body})
}

// unusable returns the error for a message that would fail in the same way each time.
func unusable(problem string) error {
	return &notify.SendError{
		Class:  notify.Reject,
		Reason: v1alpha1.ReasonDeliveryFailing,
		Text:   problem + ", which is a bug in the operator: it is dropped",
	}
}

// Limits of a signing key, in bytes
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#signature-scheme).
const (
	minKey = 24
	maxKey = 64
)

var errSigningKey = errors.New("the signing key must be 24 to 64 random bytes in base64, with or without the prefix whsec_: " +
	`generate one with "openssl rand -base64 32"`)

// newSigner reads a signing key. Errors do not reveal it.
func newSigner(secret string) (*standardwebhooks.Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	if err != nil || len(key) < minKey || len(key) > maxKey {
		return nil, errSigningKey
	}
	return standardwebhooks.NewWebhookRaw(key)
}

// sign adds the headers of a signature of key, time and body.
func sign(signer *standardwebhooks.Webhook, header http.Header, key string, now time.Time, body []byte) error {
	signature, err := signer.Sign(key, now, body)
	if err != nil {
		return err
	}
	header.Set(standardwebhooks.HeaderWebhookID, key)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}
