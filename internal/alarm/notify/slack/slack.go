// Package slack posts messages to Slack channels, with an incoming webhook or as a bot.
//
// Slack shows the text of Events as it is. The messages use plain-text objects, in which
// Slack does not interpret markup, mentions or links. Only [Mentions] notify users: they are
// part of the receiver.
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
