package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/slack-go/slack"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/glob"
)

// Channels are the channels that a bot can post to.
type Channels struct {
	// Default is spec.slack.channel.
	Default string
	// From is spec.slack.channelFrom, or nil.
	From *v1alpha1.SlackChannelFrom
}

// Choose returns the channel of a message: that of the label of its namespace. Without the label,
// or if the receiver does not allow its value, it is the default.
func (c Channels) Choose(m *message.Message) string {
	if c.From == nil {
		return c.Default
	}
	value := m.NamespaceLabels[c.From.NamespaceLabel]
	if value == "" || !c.allows(value) {
		return c.Default
	}
	if channelID.MatchString(value) {
		return value
	}
	return "#" + value
}

var channelID = regexp.MustCompile(`^[CG][A-Z0-9]{2,}$`)

func (c Channels) allows(value string) bool {
	return c.From != nil && glob.MatchAny(c.From.Allowed, value)
}

// includes reports whether the bot can post to a channel, which Choose or another configuration
// returned.
func (c Channels) includes(channel string) bool {
	return channel == c.Default || c.allows(strings.TrimPrefix(channel, "#"))
}

// channelOf returns the channel of a body.
func (b *Bot) channelOf(m *botMessage) string {
	if m.Channel != "" && b.config.includes(m.Channel) {
		return m.Channel
	}
	return b.config.Default
}

// unusable are errors of chat.postMessage about the channel only. Slack has more of them.
var unusable = map[string]string{
	"not_in_channel":                        "the bot is not in the channel",
	"channel_not_found":                     "Slack does not show this channel to the bot",
	"is_archived":                           "the channel is archived",
	"no_permission":                         "the bot may not post there",
	"restricted_action":                     "the workspace restricts posting there",
	"restricted_action_read_only_channel":   "the channel is read-only",
	"restricted_action_thread_only_channel": "only replies are allowed there",
	"external_channel_migrating":            "Slack is migrating the channel",
}

// refusesChannel reports whether an error can be about the channel only. Unknown errors can.
func refusesChannel(code string) bool {
	_, known := refusals[code]
	return unusable[code] != "" || !known
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
