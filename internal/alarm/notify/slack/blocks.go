package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

// Limits of Block Kit, in characters (https://docs.slack.dev/reference/block-kit).
const (
	maxHeader   = 150
	maxSection  = 3000
	maxContext  = 300
	maxFallback = 1000
)

// render returns a message with a header, the mentions, a section and a line of context.
func render(m *message.Message, mentions Mentions) ([]byte, error) {
	unfurl := false
	return json.Marshal(&slack.WebhookMessage{
		Text:        escapeLine(notify.Headline(m), maxFallback),
		Parse:       "none",
		UnfurlLinks: &unfurl,
		UnfurlMedia: &unfurl,
		Blocks:      &slack.Blocks{BlockSet: blocks(m, mentions)},
	})
}

func blocks(m *message.Message, mentions Mentions) []slack.Block {
	blocks := []slack.Block{slack.NewHeaderBlock(plain(escapeLine(notify.Headline(m), maxHeader)))}
	if text := mentions.text(m); text != "" {
		blocks = append(blocks, slack.NewSectionBlock(markdown(text), nil, nil))
	}
	text := strings.TrimSpace(m.Text)
	if pieces := fit.Pieces(fit.Text(text, maxSection, nil), m.URLs); slices.ContainsFunc(pieces, isURL) {
		blocks = append(blocks, linked(pieces))
	} else if text = escape(text, maxSection); text != "" {
		blocks = append(blocks, slack.NewSectionBlock(plain(text), nil, nil))
	}
	if context := contextBlock(m); len(context.ContextElements.Elements) > 0 {
		blocks = append(blocks, context)
	}
	return blocks
}

func isURL(p fit.Piece) bool { return p.URL }

// linked shows a text in which the addresses of the author of the alarm are links. Slack interprets
// nothing in the texts of such a block (https://docs.slack.dev/reference/block-kit/blocks/rich-text-block).
func linked(pieces []fit.Piece) slack.Block {
	var elements []slack.RichTextSectionElement
	for _, p := range pieces {
		if p.URL {
			elements = append(elements, slack.NewRichTextSectionLinkElement(p.Text, p.Text, nil))
		} else {
			elements = append(elements, slack.NewRichTextSectionTextElement(p.Text, nil))
		}
	}
	return slack.NewRichTextBlock("", slack.NewRichTextSection(elements...))
}

// contextBlock shows the message's origin and time.
func contextBlock(m *message.Message) *slack.ContextBlock {
	var elements []slack.MixedElement
	for _, text := range []string{m.Cluster, notify.Origin(m.Alarm)} {
		if text = escapeLine(text, maxContext); text != "" {
			elements = append(elements, plain(text))
		}
	}
	if text := notify.When(m, date); text != "" {
		elements = append(elements, markdown(text))
	}
	return slack.NewContextBlock("", elements...)
}

// plain returns text that Slack shows as it is.
func plain(text string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, text, false, false)
}

// markdown must contain only the text of the operator and of the receiver's spec, never of an
// Event. It is verbatim, so that Slack creates no links or further mentions.
func markdown(text string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.MarkdownType, text, false, true)
}

// date returns a time that Slack shows in the reader's own time zone
// (https://docs.slack.dev/messaging/formatting-message-text#date-formatting).
func date(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time_secs}|%s>", t.Unix(), t.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// entities replace the three characters that must be escaped in every text
// (https://docs.slack.dev/messaging/formatting-message-text#escaping).
var entities = map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}

func entity(r rune) string {
	if entity, ok := entities[r]; ok {
		return entity
	}
	return string(r)
}

func escape(s string, limit int) string { return fit.Text(s, limit, entity) }

func escapeLine(s string, limit int) string { return fit.Line(s, limit, entity) }
