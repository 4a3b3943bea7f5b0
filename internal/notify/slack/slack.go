// Package slack posts messages to a channel through a Slack incoming webhook.
//
// Whatever an Event says is shown and never acted on: it is put into plain-text
// objects, which Slack does not read for markup, mentions or links.
package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/notify/httppost"
)

// interval is how often Slack lets an incoming webhook post to a channel
// (https://docs.slack.dev/apis/web-api/rate-limits).
const interval = time.Second

// Notifier posts to one incoming webhook.
type Notifier struct {
	client *httppost.Client
	url    string
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier for an incoming webhook's URL, which is a secret: white
// space around it is taken off, and an error does not tell it.
func New(client *httppost.Client, webhookURL string) (*Notifier, error) {
	webhookURL = strings.TrimSpace(webhookURL)
	if err := httppost.CheckURL(webhookURL); err != nil {
		return nil, err
	}
	return &Notifier{client: client, url: webhookURL}, nil
}

// Limit is one message a second, shared by all receivers of the same webhook.
func (n *Notifier) Limit() notify.Limit {
	sum := sha256.Sum256([]byte(n.url))
	return notify.Limit{Key: "slack:" + hex.EncodeToString(sum[:]), Every: interval}
}

// Format of the bodies.
func (n *Notifier) Format() string { return "slack" }

// Send posts the body.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	return n.client.Post(ctx, httppost.Request{URL: n.url, Key: key, Body: body, Judge: judge})
}
