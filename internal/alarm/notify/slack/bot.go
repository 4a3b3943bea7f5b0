package slack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/slack-go/slack"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// DefaultAPI is the URL of Slack's Web API.
const DefaultAPI = "https://slack.com/api"

// Slack's limits are one message a second in a channel, and 50 calls of chat.update a minute
// for a bot in a workspace (https://docs.slack.dev/apis/web-api/rate-limits).
const (
	// botInterval is the pause between two messages in a channel. One may be an update and a reply.
	botInterval = 1500 * time.Millisecond
	// workspaceInterval is the pause between two messages of a bot, in all channels.
	workspaceInterval = 1200 * time.Millisecond
	// workspaceBurst is the number of messages that channels may send at the same time.
	workspaceBurst = 10
)

// BotConfig configures the bot and its channels.
type BotConfig struct {
	Channels

	API string
	// Token is the bot's token, which is a secret.
	Token string
	// Mentions are in messages that are not replies.
	Mentions Mentions
	// Clock measures the time since the last reply in a thread.
	Clock clock.PassiveClock
}

// Bot posts with chat.postMessage. It posts one message for each group and edits it
// later. New occurrences are replies in its thread.
type Bot struct {
	client *httppost.Client
	config BotConfig
	header http.Header
}

var _ notify.Threader = (*Bot)(nil)

var (
	token    = regexp.MustCompile(`^xox[a-z]-[A-Za-z0-9-]+$`)
	errToken = errors.New("the value is not a bot token: use the one that begins with xoxb-")
)

// NewBot returns a Bot. Errors do not reveal the token.
func NewBot(client *httppost.Client, c BotConfig) (*Bot, error) {
	c.Token, c.API = strings.TrimSpace(c.Token), strings.TrimSuffix(c.API, "/")
	if !token.MatchString(c.Token) {
		return nil, errToken
	}
	if err := httppost.CheckURL(c.API); err != nil {
		return nil, err
	}
	header := http.Header{"Authorization": {"Bearer " + c.Token}, "Content-Type": {"application/json; charset=utf-8"}}
	return &Bot{client: client, config: c, header: header}, nil
}

// Limit is shared by all receivers with the same bot and default channel. It includes the messages
// in other channels.
func (b *Bot) Limit() notify.Limit {
	sum := sha256.Sum256([]byte(b.config.Token + "\x00" + b.config.Default))
	return notify.Limit{Key: "slack:" + hex.EncodeToString(sum[:]), Every: botInterval}
}

// WorkspaceLimit is shared by all receivers with the same bot, whatever their channels are.
func (b *Bot) WorkspaceLimit() notify.Limit {
	sum := sha256.Sum256([]byte(b.config.Token))
	return notify.Limit{Key: "slack-workspace:" + hex.EncodeToString(sum[:]), Every: workspaceInterval, Burst: workspaceBurst}
}

// Format of the bodies.
func (b *Bot) Format() string { return "slack/bot" }

// Send posts the body to its channel.
func (b *Bot) Send(ctx context.Context, key string, body []byte) error {
	var m botMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	_, _, err := b.post(ctx, key, b.channelOf(&m), m.Root)
	return err
}

// call holds the arguments of chat.postMessage and chat.update.
type call struct {
	Channel  string `json:"channel"`
	TS       string `json:"ts,omitempty"`        // the message to update
	ThreadTS string `json:"thread_ts,omitempty"` // the message to reply to
	content
}

// answer is Slack's answer to a call. Channel and TS identify the message.
type answer struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
}

// errAnswer means that an answer does not show whether Slack accepted the call.
var errAnswer = errors.New("the answer is not one of Slack's API")

// decode reads an answer whose end can be missing: Slack repeats the message in it, and a
// connection can break. The caller would otherwise repeat a message that Slack accepted.
func (a *answer) decode(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errAnswer
	}
	known := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		if name, ok := name.(string); ok {
			known[name] = value
		}
	}
	raw, err := json.Marshal(known)
	if known["ok"] == nil || err != nil {
		return errAnswer
	}
	return json.Unmarshal(raw, a)
}

// call makes one request. Slack's errors that are tolerated do not return an error. The
// caller finds them in the answer.
func (b *Bot) call(ctx context.Context, method, key string, c call, tolerated func(code string) bool) (*answer, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var a answer
	err = b.client.Post(ctx, httppost.Request{
		URL: b.config.API + "/" + method, Header: b.header, Key: key, Body: body,
		Classify: func(r *httppost.Response) { classifyCall(r, &a, tolerated) },
	})
	return &a, err
}

const (
	badToken   = "the bot's token is no longer valid: put a new one into the Secret" //nolint:gosec // no token
	badChannel = "the channel does not exist, or the bot cannot see it: correct spec.slack.channel, or invite the bot"
	badMessage = "Slack does not understand this message: it is dropped"
	restricted = "the workspace restricts posting to this channel: use another channel"
	migrating  = "Slack is migrating the workspace or the channel" + notify.Retried
	slackFault = "Slack has an internal error" + notify.Retried
	tooFast    = "Slack asks for fewer messages" + notify.Retried
)

type refusal struct {
	class notify.Class
	text  string
}

// refusals classify and explain the errors of chat.postMessage and chat.update
// (https://docs.slack.dev/reference/methods/chat.postMessage#errors).
var refusals = map[string]refusal{
	"account_inactive":                      {notify.Stop, badToken},
	"invalid_auth":                          {notify.Stop, badToken},
	"not_authed":                            {notify.Stop, badToken},
	"not_allowed_token_type":                {notify.Stop, badToken},
	"token_expired":                         {notify.Stop, badToken},
	"token_revoked":                         {notify.Stop, badToken},
	"missing_scope":                         {notify.Stop, "the bot may not post: give its app the scope chat:write, install it again, and put its token into the Secret"},
	"not_in_channel":                        {notify.Stop, "the bot is not in the channel: invite it and annotate the receiver"},
	"channel_not_found":                     {notify.Stop, badChannel},
	"is_archived":                           {notify.Stop, "the channel is archived: unarchive it and annotate the receiver, or set another in spec.slack.channel"},
	"no_permission":                         {notify.Stop, badChannel},
	"restricted_action":                     {notify.Stop, restricted},
	"restricted_action_read_only_channel":   {notify.Stop, restricted},
	"restricted_action_thread_only_channel": {notify.Stop, restricted},
	"invalid_arguments":                     {notify.Reject, badMessage},
	"invalid_blocks":                        {notify.Reject, badMessage},
	"invalid_blocks_format":                 {notify.Reject, badMessage},
	"msg_blocks_too_long":                   {notify.Reject, badMessage},
	"msg_too_long":                          {notify.Reject, badMessage},
	"no_text":                               {notify.Reject, badMessage},
	"external_channel_migrating":            {notify.Retry, migrating},
	"org_login_required":                    {notify.Retry, migrating},
	"team_added_to_org":                     {notify.Retry, migrating},
	"update_failed":                         {notify.Retry, slackFault},
	"fatal_error":                           {notify.Retry, slackFault},
	"internal_error":                        {notify.Retry, slackFault},
	"message_limit_exceeded":                {notify.Retry, "the workspace has reached its message limit" + notify.Retried},
	"rate_limited":                          {notify.Retry, tooFast},
	"ratelimited":                           {notify.Retry, tooFast},
	"request_timeout":                       {notify.Retry, slackFault},
	"service_unavailable":                   {notify.Retry, slackFault},
}

const (
	isDeleted   = "a group's message was deleted in Slack: the group continues in a new message"
	isElsewhere = "the channel of a group's message was deleted or archived: the group continues in a new message, in spec.slack.channel"
	isAnothers  = "a group's message belongs to another bot, maybe because the token was replaced: the group continues in a new message"
	isRefused   = "Slack refuses the channel of a group's message: the group continues in a new message, in spec.slack.channel"
	isTooOld    = "the workspace limits how long messages can be edited: the group continues in a new message; remove the limit to avoid this"
)

// lost are the errors of chat.update about the group's message only. The bot then posts
// a new message. The values are Threaded.Lost.
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

// unanswerable are the errors of a reply to a message that was just edited.
var unanswerable = map[string]string{
	"message_not_found":                        isDeleted,
	"thread_not_found":                         isDeleted,
	"restricted_action_non_threadable_channel": "the channel has no threads",
}

// classifyCall reads the result from the body, because Slack also answers 200 to
// failed calls.
func classifyCall(r *httppost.Response, a *answer, tolerated func(code string) bool) {
	if !r.Accepted {
		return
	}
	if a.decode(r.Body) != nil {
		r.Refuse(notify.Retry, "Slack's answer cannot be read: check spec.slack.apiURL")
		return
	}
	if a.OK || tolerated(a.Error) {
		return
	}
	known, ok := refusals[a.Error]
	if !ok {
		known = refusal{notify.Stop, "Slack refuses the message for an unknown reason: check the bot and the channel, and annotate the receiver"}
	}
	r.Refuse(known.class, known.text)
}

// botMessage is a body: the current text of the group's message, which is also the reply
// about the new occurrences.
type botMessage struct {
	Root content `json:"root"`
	// Reply is the text of the reply if it differs, because replies mention no one.
	Reply content `json:"reply,omitzero"`
	// Since is when the group started, in Unix seconds.
	Since int64 `json:"since,omitempty"`
	// Channel is the channel of the message, empty for the default.
	Channel string `json:"channel,omitempty"`
	// Notice is true if the message is only a reply: it says who acknowledged the group.
	Notice bool `json:"notice,omitempty"`
}

type content struct {
	Text        string          `json:"text"`
	Blocks      json.RawMessage `json:"blocks"`
	Parse       string          `json:"parse"`
	UnfurlLinks bool            `json:"unfurl_links"`
	UnfurlMedia bool            `json:"unfurl_media"`
}

// channelOf returns the channel of a body.
func (b *Bot) channelOf(m *botMessage) string {
	if m.Channel != "" && b.config.includes(m.Channel) {
		return m.Channel
	}
	return b.config.Default
}

// tolerated returns which errors of a call for a channel are no failure of the receiver. These are
// those in expected. For a channel other than the default, all that can be about the channel only
// are added. Otherwise, a user who manages that channel could stop the messages of others.
func (b *Bot) tolerated(channel string, expected map[string]string) func(code string) bool {
	return func(code string) bool {
		return expected[code] != "" || channel != b.config.Default && refusesChannel(code)
	}
}

// post posts a message. If Slack refuses a channel other than the default, the message goes to the
// default channel and says why. Otherwise, everyone who can set the label could stop the messages
// of others. It returns the channel that accepted it.
func (b *Bot) post(ctx context.Context, key, channel string, text content) (at *answer, accepted string, err error) {
	if channel != b.config.Default {
		at, err = b.call(ctx, "chat.postMessage", key, call{Channel: channel, content: text}, b.tolerated(channel, nil))
		if err != nil || at.OK {
			return at, channel, err
		}
		if text, err = text.withNote("For " + channel + ", but " + cmp.Or(unusable[at.Error], "Slack refuses it")); err != nil {
			return nil, "", err
		}
	}
	at, err = b.call(ctx, "chat.postMessage", key, call{Channel: b.config.Default, content: text}, b.tolerated(b.config.Default, nil))
	return at, b.config.Default, err
}

// withNote returns the content with another line.
func (c content) withNote(note string) (content, error) {
	var blocks []json.RawMessage
	if err := json.Unmarshal(c.Blocks, &blocks); err != nil {
		return content{}, err
	}
	line, err := json.Marshal(slack.NewContextBlock("", plain(escapeLine(note, maxContext))))
	if err != nil {
		return content{}, err
	}
	c.Blocks, err = json.Marshal(append(blocks, line))
	return c, err
}
