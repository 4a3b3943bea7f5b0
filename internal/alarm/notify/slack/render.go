package slack

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// Limits of Block Kit, in characters (https://docs.slack.dev/reference/block-kit).
const (
	maxHeader   = 150
	maxSection  = 3000
	maxContext  = 300
	maxFallback = 1000
)

// Render makes a message of a header, a section and a line of context.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	unfurl := false
	return json.Marshal(&slack.WebhookMessage{
		Text:        escapeLine(notify.Headline(&m), maxFallback),
		Parse:       "none",
		UnfurlLinks: &unfurl,
		UnfurlMedia: &unfurl,
		Blocks:      &slack.Blocks{BlockSet: blocks(&m)},
	})
}

func blocks(m *message.Message) []slack.Block {
	blocks := []slack.Block{slack.NewHeaderBlock(plain(escapeLine(notify.Headline(m), maxHeader)))}
	if text := escape(strings.TrimSpace(m.Text), maxSection); text != "" {
		blocks = append(blocks, slack.NewSectionBlock(plain(text), nil, nil))
	}
	if context := contextBlock(m); len(context.ContextElements.Elements) > 0 {
		blocks = append(blocks, context)
	}
	return blocks
}

// contextBlock says where it comes from and since when.
func contextBlock(m *message.Message) *slack.ContextBlock {
	var elements []slack.MixedElement
	for _, text := range []string{m.Cluster, notify.Origin(m.Alarm)} {
		if text = escapeLine(text, maxContext); text != "" {
			elements = append(elements, plain(text))
		}
	}
	if text := when(m); text != "" {
		elements = append(elements, markdown(text))
	}
	return slack.NewContextBlock("", elements...)
}

// plain is text that Slack shows as it is.
func plain(text string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, text, false, false)
}

// markdown is for text of our own only; verbatim, so that nothing in it is made a
// link or a mention.
func markdown(text string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.MarkdownType, text, false, true)
}

// when is empty of a message that does not tell.
func when(m *message.Message) string {
	switch {
	case m.LastSeen.IsZero():
		return ""
	case m.FirstSeen.IsZero(), m.FirstSeen.Equal(m.LastSeen):
		return date(m.LastSeen)
	default:
		return "since " + date(m.FirstSeen)
	}
}

// date is shown by Slack in the reader's own time zone
// (https://docs.slack.dev/messaging/formatting-message-text#date-formatting).
func date(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time_secs}|%s>", t.Unix(), t.UTC().Format("2006-01-02 15:04:05 UTC"))
}
