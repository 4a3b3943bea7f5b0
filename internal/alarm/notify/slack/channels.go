package slack

import (
	"regexp"
	"strings"

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
