package slack

import (
	"encoding/json"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

const (
	badToken   = "the bot's token is not valid any more; put a new one into the Secret" //nolint:gosec // no token
	badChannel = "the channel does not exist, or the bot cannot see it; correct spec.slack.channel, or invite the bot"
	badMessage = "Slack does not understand this message, which is dropped"
	restricted = "the workspace restricts posting to this channel; use another channel"
	moving     = "Slack is moving the workspace or the channel; it is tried again"
	itsFault   = "Slack has a fault of its own; it is tried again"
)

type refusal struct {
	class  notify.Class
	advice string
}

// refusals are what to do about the errors of chat.postMessage and chat.update
// (https://docs.slack.dev/reference/methods/chat.postMessage#errors).
var refusals = map[string]refusal{
	"account_inactive":                      {notify.Park, badToken},
	"invalid_auth":                          {notify.Park, badToken},
	"not_authed":                            {notify.Park, badToken},
	"not_allowed_token_type":                {notify.Park, badToken},
	"token_expired":                         {notify.Park, badToken},
	"token_revoked":                         {notify.Park, badToken},
	"missing_scope":                         {notify.Park, "the bot may not post: give its app the scope chat:write, install it again, and put its token into the Secret"},
	"not_in_channel":                        {notify.Park, "the bot is not in the channel; invite it there, and annotate the receiver"},
	"channel_not_found":                     {notify.Park, badChannel},
	"is_archived":                           {notify.Park, "the channel is archived; unarchive it and annotate the receiver, or set another in spec.slack.channel"},
	"no_permission":                         {notify.Park, badChannel},
	"restricted_action":                     {notify.Park, restricted},
	"restricted_action_read_only_channel":   {notify.Park, restricted},
	"restricted_action_thread_only_channel": {notify.Park, restricted},
	"invalid_arguments":                     {notify.Reject, badMessage},
	"invalid_blocks":                        {notify.Reject, badMessage},
	"invalid_blocks_format":                 {notify.Reject, badMessage},
	"msg_blocks_too_long":                   {notify.Reject, badMessage},
	"msg_too_long":                          {notify.Reject, badMessage},
	"no_text":                               {notify.Reject, badMessage},
	"external_channel_migrating":            {notify.Retry, moving},
	"org_login_required":                    {notify.Retry, moving},
	"team_added_to_org":                     {notify.Retry, moving},
	"update_failed":                         {notify.Retry, itsFault},
	"fatal_error":                           {notify.Retry, itsFault},
	"internal_error":                        {notify.Retry, itsFault},
	"message_limit_exceeded":                {notify.Retry, "the workspace has reached its limit of messages; it is tried again"},
	"rate_limited":                          {notify.Retry, "Slack asks for fewer messages; they are sent later"},
	"ratelimited":                           {notify.Retry, "Slack asks for fewer messages; they are sent later"},
	"request_timeout":                       {notify.Retry, itsFault},
	"service_unavailable":                   {notify.Retry, itsFault},
}

const (
	isDeleted   = "a group's message was deleted in Slack: it was posted anew, and goes on there"
	isElsewhere = "the channel of a group's message is gone or archived: the message was posted anew, in the channel that spec.slack.channel names now"
	isAnothers  = "a group's message is not this bot's, whose token was perhaps replaced by another's: it was posted anew, and goes on there"
	isTooOld    = "the workspace does not let messages be edited for as long as a group lasts: a group's message was posted anew, as each will be until it lets them"
)

// lost are the errors of chat.update that tell of one former message: it is begun
// anew, which shows whether the channel as such can be posted to. What is said of it
// is Threaded.Lost.
var lost = map[string]string{
	"message_not_found":        isDeleted,
	"thread_not_found":         isDeleted,
	"cant_update_message":      isAnothers,
	"message_not_owned_by_app": isAnothers,
	"edit_window_closed":       isTooOld,
	"channel_not_found":        isElsewhere,
	"is_archived":              isElsewhere,
	"is_inactive":              isElsewhere,
}

// unanswerable are the errors of a reply to a message that was edited a moment before.
var unanswerable = map[string]string{
	"message_not_found":                        isDeleted,
	"thread_not_found":                         isDeleted,
	"restricted_action_non_threadable_channel": "the channel has no threads",
}

// judgeCall knows that Slack answers 200 whatever it did.
func judgeCall(a *httppost.Answer, answer *posted, bearable map[string]string) {
	if !a.Taken {
		return
	}
	if json.Unmarshal(a.Body, answer) != nil {
		a.Refuse(notify.Retry, "its answer cannot be read; check spec.slack.apiURL")
		return
	}
	if answer.OK || bearable[answer.Error] != "" {
		return
	}
	r, known := refusals[answer.Error]
	if !known {
		r = refusal{notify.Park, "Slack refuses for a reason that is not known here; check the bot and the channel, and annotate the receiver"}
	}
	a.Refuse(r.class, r.advice)
}
