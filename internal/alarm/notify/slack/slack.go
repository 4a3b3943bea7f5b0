// Package slack posts messages to a channel through a Slack incoming webhook.
//
// Whatever an Event says is shown and never acted on: it is put into plain-text
// objects, which Slack does not read for markup, mentions or links.
package slack

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval is how often Slack lets an incoming webhook post to a channel
// (https://docs.slack.dev/apis/web-api/rate-limits).
const interval = time.Second

// Notifier posts to one incoming webhook.
type Notifier struct{ *httppost.Hook }

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier for an incoming webhook's URL, which is a secret.
func New(client *httppost.Client, webhookURL string) (*Notifier, error) {
	hook, err := httppost.NewHook(client, webhookURL, httppost.HookConfig{Sink: "slack", Every: interval, Judge: judge})
	if err != nil {
		return nil, err
	}
	return &Notifier{hook}, nil
}

// Format of the bodies.
func (n *Notifier) Format() string { return "slack" }
