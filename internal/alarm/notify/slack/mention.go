package slack

import (
	"strings"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Mentions are the users and user groups that messages notify. They come from the receiver's
// spec, whose schema allows only IDs.
type Mentions []v1alpha1.SlackMention

// text returns the mentions in Slack's markup
// (https://docs.slack.dev/messaging/formatting-message-text#mentioning). It is empty for a
// message that resolves a group, because no one has to act on it.
func (all Mentions) text(m *message.Message) string {
	if m.Group != nil && m.Group.Resolved {
		return ""
	}
	texts := make([]string, 0, len(all))
	for _, mention := range all {
		texts = append(texts, mentionText(string(mention)))
	}
	return strings.Join(texts, " ")
}

func mentionText(mention string) string {
	switch {
	case mention == "here", mention == "channel", mention == "everyone":
		return "<!" + mention + ">"
	case strings.HasPrefix(mention, "S"):
		return "<!subteam^" + mention + ">"
	default:
		return "<@" + mention + ">"
	}
}
