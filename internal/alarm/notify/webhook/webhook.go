// Package webhook posts messages as JSON to any HTTP server, as they are, as CloudEvents, or
// in a body that the user defines. It can sign them. docs/webhook.md describes the requests.
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
	// Request contains the method, the format and the body. New ignores its headers.
	Request v1alpha1.WebhookRequest
	// Sign means that each request is signed with SigningKey.
	Sign       bool
	SigningKey string
	// Clock returns the time of signatures.
	Clock clock.PassiveClock
	// BodyFailed is called if an expression of the body failed. The message is sent all the
	// same. The text is for the receiver's owner. Optional.
	BodyFailed func(text string)
}

// Notifier posts to one URL.
type Notifier struct {
	client   *httppost.Client
	method   string
	url      string
	header   http.Header
	body     *body     // nil without a body of the user's own
	envelope *envelope // nil without CloudEvents
	signer   *standardwebhooks.Webhook
	clock    clock.PassiveClock
	expected *v1alpha1.ExpectedAnswer
	maxBatch int
}

var (
	_ notify.Batcher = (*Notifier)(nil)
	_ notify.Costly  = (*Notifier)(nil)
)

// New returns a Notifier. Errors do not reveal values. The error for an invalid body is a
// *match.CompileError.
func New(client *httppost.Client, c Config) (*Notifier, error) {
	n := &Notifier{
		client: client, url: strings.TrimSpace(c.URL), clock: c.Clock,
		method: string(c.Request.Method), expected: c.Request.ExpectedAnswer,
	}
	if err := httppost.CheckURL(n.url); err != nil {
		return nil, err
	}
	var err error
	if n.header, err = httppost.NewHeader(c.Headers); err != nil {
		return nil, err
	}
	if n.body, err = newBody(c.Request, c.BodyFailed); err != nil {
		return nil, err
	}
	if n.body != nil {
		n.header.Set("Content-Type", n.body.contentType)
	}
	if c.Sign {
		if n.signer, err = newSigner(c.SigningKey); err != nil {
			return nil, err
		}
	}
	switch c.Request.Format {
	case v1alpha1.WebhookCloudEvents:
		n.envelope = structured
	case v1alpha1.WebhookCloudEventsBinary:
		n.envelope = binary
	case v1alpha1.WebhookJSON:
	}
	if batch := c.Request.Batch; batch != nil && n.envelope == structured {
		n.envelope, n.maxBatch = batched, int(batch.MaxMessages)
	}
	return n, nil
}

// Format of the bodies. Send adds the envelope, so it does not depend on the envelope. It
// depends on the template: a message that was rendered before a change is rendered again.
func (n *Notifier) Format() string {
	if n.body != nil {
		return n.body.format
	}
	return "webhook"
}

// Render returns the body of the user's own, or the message as JSON. Without Events, the list
// is empty and not null.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	body, _, err := n.RenderAtCost(m)
	return body, err
}

// HasTemplate reports whether there is a body of the user's own.
func (n *Notifier) HasTemplate() bool { return n.body != nil }

// RenderAtCost is Render. Only a body of the user's own has a cost.
func (n *Notifier) RenderAtCost(m message.Message) (body []byte, cost int64, err error) {
	if n.body != nil {
		return n.body.render(&m)
	}
	if m.Events == nil {
		m.Events = []message.Event{}
	}
	body, err = json.Marshal(m)
	return body, 0, err
}

// Send posts the body. Retries are identical, except for the time of the signature.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	return n.SendBatch(ctx, key, []notify.BatchMessage{{Key: key, Body: body}})
}

// MaxBatch returns the limit of the receiver, 0 if each request contains one message.
func (n *Notifier) MaxBatch() int { return n.maxBatch }

// SendBatch posts messages with one request. Retries are identical, as those of Send.
func (n *Notifier) SendBatch(ctx context.Context, key string, messages []notify.BatchMessage) error {
	header, body := n.header.Clone(), messages[0].Body
	if n.envelope != nil {
		wrapped, attributes, err := n.envelope.wrap(ctx, messages)
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
	return n.client.Post(ctx, httppost.Request{
		Method: n.method, URL: n.url, Header: header, Key: key, Body: body, Classify: n.classify,
	})
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

// classify compares the answer with the expected one. The receiver can have accepted the message
// although its answer is another one, so the pauses between repetitions are as after Stop.
func (n *Notifier) classify(r *httppost.Response) {
	if n.expected == nil || !r.Accepted {
		return
	}
	var answer map[string]json.RawMessage
	switch {
	case json.Unmarshal(r.Body, &answer) != nil:
		r.Refuse(notify.Stop, "the receiver's answer is no JSON object of at most 64 KiB: correct or remove spec.webhook.expectedAnswer")
	case plainText(answer[n.expected.Field]) != n.expected.Value:
		r.Refuse(notify.Stop, "the receiver's answer does not contain what spec.webhook.expectedAnswer demands: "+
			"check whether the receiver accepts the body, and its documentation")
	}
}
