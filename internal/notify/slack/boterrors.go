package slack

import (
	"encoding/json"

	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/notify/httppost"
)

const (
	badToken   = "the bot's token is not valid any more; put a new one into the Secret" //nolint:gosec // no token
	badChannel = "the channel does not exist, or the bot cannot see it; correct spec.slack.channel, or invite the bot"
	badMessage = "Slack does not understand this message, which is dropped"
	itsFault   = "Slack has a fault of its own; it is tried again"
)

type refusal struct {
	class  notify.Class
	advice string
}

// refusals are what to do about the errors of chat.postMessage and chat.update
// (https://docs.slack.dev/reference/methods/chat.postMessage#errors).
var refusals = map[string]refusal{
	"account_inactive":       {notify.Park, badToken},
	"invalid_auth":           {notify.Park, badToken},
	"not_authed":             {notify.Park, badToken},
	"token_expired":          {notify.Park, badToken},
	"token_revoked":          {notify.Park, badToken},
	"missing_scope":          {notify.Park, "the bot may not post: give its app the scope chat:write, install it again, and put its token into the Secret"},
	"not_in_channel":         {notify.Park, "the bot is not in the channel; invite it there, and annotate the receiver"},
	"channel_not_found":      {notify.Park, badChannel},
	"is_archived":            {notify.Park, "the channel is archived; unarchive it and annotate the receiver, or set another in spec.slack.channel"},
	"restricted_action":      {notify.Park, "the workspace restricts posting to this channel; use another channel"},
	"invalid_arguments":      {notify.Reject, badMessage},
	"invalid_blocks":         {notify.Reject, badMessage},
	"invalid_blocks_format":  {notify.Reject, badMessage},
	"msg_blocks_too_long":    {notify.Reject, badMessage},
	"msg_too_long":           {notify.Reject, badMessage},
	"no_text":                {notify.Reject, badMessage},
	"fatal_error":            {notify.Retry, itsFault},
	"internal_error":         {notify.Retry, itsFault},
	"message_limit_exceeded": {notify.Retry, "the workspace has reached its limit of messages; it is tried again"},
	"rate_limited":           {notify.Retry, "Slack asks for fewer messages; they are sent later"},
	"ratelimited":            {notify.Retry, "Slack asks for fewer messages; they are sent later"},
	"request_timeout":        {notify.Retry, itsFault},
	"service_unavailable":    {notify.Retry, itsFault},
}

// lost are the errors of one former message, which is gone or cannot be edited any
// more: the thread is begun anew.
var lost = map[string]bool{"message_not_found": true, "cant_update_message": true, "edit_window_closed": true, "thread_not_found": true}

// judgeCall knows that Slack answers 200 whatever it did.
func judgeCall(a *httppost.Answer, answer *posted) {
	if !a.Taken {
		return
	}
	if json.Unmarshal(a.Body, answer) != nil {
		a.Refuse(notify.Retry, "its answer cannot be read; check spec.slack.apiURL")
		return
	}
	if answer.OK || lost[answer.Error] {
		return
	}
	r, known := refusals[answer.Error]
	if !known {
		r = refusal{notify.Park, "Slack refuses for a reason that is not known here; check the bot and the channel, and annotate the receiver"}
	}
	a.Refuse(r.class, r.advice)
}
