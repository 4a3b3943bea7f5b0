package slack

import (
	"strings"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// advice is what to do about the errors of incoming webhooks
// (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
var advice = map[string]string{ //nolint:gosec // "token" stands in the name of an error, no token here
	"action_prohibited":                 "the workspace's administrator restricts posting by this webhook",
	"channel_is_archived":               "the channel is archived; unarchive it and annotate the receiver, or put another webhook's URL into the Secret",
	"channel_not_found":                 "the channel does not exist; put another webhook's URL into the Secret",
	"invalid_payload":                   "Slack does not understand this message, which is dropped",
	"invalid_blocks":                    "Slack does not understand this message, which is dropped",
	"invalid_token":                     "the webhook's URL is not valid; put the one that Slack shows for the app into the Secret",
	"no_active_hooks":                   "the webhook was disabled; make a new one and put its URL into the Secret",
	"no_service":                        "the webhook was removed or disabled; make a new one and put its URL into the Secret",
	"no_service_id":                     "the webhook's URL is not complete; put the one that Slack shows for the app into the Secret",
	"no_team":                           "the webhook's workspace does not exist; put another webhook's URL into the Secret",
	"no_text":                           "Slack found no text in this message, which is dropped",
	"posting_to_general_channel_denied": "the workspace restricts posting to this channel; use another channel's webhook",
	"rollup_error":                      "Slack has a fault of its own; it is tried again",
	"team_disabled":                     "the Slack workspace is disabled",
	"too_many_attachments":              "Slack does not accept this message, which is dropped",
	"user_not_found":                    "the webhook's user does not exist any more; make a new webhook and put its URL into the Secret",
}

// judge knows Slack's answer, one word of plain text.
func judge(a *httppost.Answer) {
	if text, known := advice[strings.TrimSpace(string(a.Body))]; known {
		a.Advice = text
	}
}
