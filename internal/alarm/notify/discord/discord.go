// Package discord posts messages to a Discord channel through a webhook.
//
// Whatever an Event says is shown and never acted on: it stands in an embed, where
// mentions notify nobody, its Markdown is escaped, and no mention is allowed.
package discord

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval keeps below the 30 messages a minute that Discord takes of the webhooks of
// a channel; its answers tell the limit in force
// (https://discord.com/developers/docs/topics/rate-limits).
const interval = 2 * time.Second

// Notifier posts to one webhook.
type Notifier struct{ *httppost.Hook }

var _ notify.Notifier = (*Notifier)(nil)

// New returns a Notifier for a webhook's URL, which is a secret.
func New(client *httppost.Client, webhookURL string) (*Notifier, error) {
	hook, err := httppost.NewHook(client, webhookURL, httppost.HookConfig{Sink: "discord", Every: interval, Judge: judge})
	if err != nil {
		return nil, err
	}
	return &Notifier{hook}, nil
}

// Format of the bodies.
func (n *Notifier) Format() string { return "discord" }

// judge words what Discord answers of webhooks that are no more.
func judge(a *httppost.Answer) {
	switch a.Status {
	case 401, 404:
		a.Advice = "the webhook was deleted, or its URL is not complete; make a new one and put its URL into the Secret"
	}
}
