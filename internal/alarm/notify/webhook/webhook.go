// Package webhook posts messages as JSON to any HTTP server, alone or as
// CloudEvents, and signs them if it is told to. docs/webhook.md tells its users
// what they get.
package webhook

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// Config is what a Notifier is made of. URL, headers and key may come out of a
// Secret: white space around a value is taken off.
type Config struct {
	URL     string
	Headers map[string][]byte
	// Format is JSON unless it says otherwise.
	Format v1alpha1.WebhookFormat
	// Sign says that each request is signed, with SigningKey.
	Sign       bool
	SigningKey string
	// Clock tells when a request is signed.
	Clock clock.PassiveClock
}

// Notifier posts to one URL.
type Notifier struct {
	client   *httppost.Client
	url      string
	header   http.Header
	envelope *envelope // nil is none
	signer   *standardwebhooks.Webhook
	clock    clock.PassiveClock
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier, or an error that tells no value.
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

// Format of the bodies. An envelope is put around them when they are sent.
func (n *Notifier) Format() string { return "webhook" }

// Render is the message's own JSON form. What is empty is an empty list, not null.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	if m.Events == nil {
		m.Events = []message.Event{}
	}
	return json.Marshal(m)
}

// Send posts the body. Whenever it is sent again, all is the same but the time of
// the signature.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	header := n.header.Clone()
	if n.envelope != nil {
		wrapped, attributes, err := n.envelope.wrap(ctx, key, body)
		if err != nil {
			return unusable("a CloudEvent cannot be made of this message")
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

// unusable gives up a message that would fail in the same way each time.
func unusable(what string) error {
	return &notify.SendError{
		Class:  notify.Reject,
		Reason: v1alpha1.ReasonDeliveryFailing,
		Text:   what + ", which is a fault of the operator; it is dropped",
	}
}
