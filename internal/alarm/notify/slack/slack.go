// Package slack posts messages to Slack channels, with an incoming webhook or as a bot.
//
// Slack shows the text of Events as it is. The messages use plain-text objects, in which
// Slack does not interpret markup, mentions or links. Only [Mentions] notify users: they are
// part of the receiver.
package slack

import (
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval is the minimum time between two messages of an incoming webhook in Slack's
// limits (https://docs.slack.dev/apis/web-api/rate-limits).
const interval = time.Second

// New returns a notifier for the URL of an incoming webhook, which is a secret.
func New(client *httppost.Client, webhookURL string, mentions Mentions) (*httppost.Hook, error) {
	render := func(m message.Message) ([]byte, error) { return render(&m, mentions) }
	return httppost.NewHook(client, webhookURL, httppost.HookConfig{Format: "slack", Every: interval, Classify: classify, Render: render})
}

// errorTexts explain the errors of incoming webhooks
// (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
var errorTexts = map[string]string{ //nolint:gosec // the keys name errors and contain no token
	"action_prohibited":                 "the workspace restricts posting with this webhook: ask the workspace's administrator",
	"channel_is_archived":               "the channel is archived: unarchive it and annotate the receiver, or put another webhook's URL into the Secret",
	"channel_not_found":                 "the channel does not exist: put another webhook's URL into the Secret",
	"invalid_payload":                   badMessage,
	"invalid_blocks":                    badMessage,
	"invalid_token":                     "the webhook's URL is not valid: put the one that Slack shows for the app into the Secret",
	"no_active_hooks":                   "the webhook was disabled: create a new one and put its URL into the Secret",
	"no_service":                        "the webhook was removed or disabled: create a new one and put its URL into the Secret",
	"no_service_id":                     "the webhook's URL is incomplete: put the one that Slack shows for the app into the Secret",
	"no_team":                           "the webhook's workspace does not exist: put another webhook's URL into the Secret",
	"no_text":                           "Slack found no text in this message: it is dropped",
	"posting_to_general_channel_denied": "the workspace restricts posting to this channel: use another channel's webhook",
	"rollup_error":                      slackFault,
	"team_disabled":                     "the Slack workspace is disabled: put the URL of another workspace's webhook into the Secret",
	"too_many_attachments":              "Slack does not accept this message: it is dropped",
	"user_not_found":                    "the webhook's user was deleted: create a new webhook and put its URL into the Secret",
}

// classify explains errors by the response's body, which is one word of plain text.
func classify(r *httppost.Response) {
	if text, known := errorTexts[strings.TrimSpace(string(r.Body))]; known {
		r.Text = text
	}
}
