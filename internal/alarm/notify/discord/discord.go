// Package discord posts messages to a Discord channel through a webhook.
//
// Discord shows the text of Events as it is. The text is part of an embed with escaped
// Markdown. Mentions in embeds notify no one, and the message allows none.
package discord

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval stays below Discord's usual limit of 30 messages a minute for the webhooks
// of a channel. Discord may lower the limit and then answers with Retry-After
// (https://discord.com/developers/docs/topics/rate-limits).
const interval = 2 * time.Second

// New returns a notifier for the URL of a webhook, which is a secret.
func New(client *httppost.Client, webhookURL string) (*httppost.Hook, error) {
	return httppost.NewHook(client, webhookURL, httppost.HookConfig{Format: "discord", Every: interval, Classify: classify, Render: render})
}

// classify explains Discord's answers for webhooks that do not exist.
func classify(r *httppost.Response) {
	switch r.Status {
	case 401, 404:
		r.Text = "the webhook was deleted, or its URL is incomplete: create a new one and put its URL into the Secret"
	}
}

// Limits of an embed, in characters. All of it together may have 6,000
// (https://discord.com/developers/docs/resources/message#embed-object-embed-limits).
const (
	maxTitle       = 256
	maxDescription = 4096
	maxFooter      = 1024
)

type payload struct {
	Embeds          []embed         `json:"embeds"`
	AllowedMentions allowedMentions `json:"allowed_mentions"`
}

type embed struct {
	Title       string  `json:"title"`
	Description string  `json:"description,omitempty"`
	Color       int     `json:"color"`
	Footer      *footer `json:"footer,omitempty"`
}

type footer struct {
	Text string `json:"text"`
}

// allowedMentions with an empty list allows no mention
// (https://discord.com/developers/docs/resources/message#allowed-mentions-object).
type allowedMentions struct {
	Parse []string `json:"parse"`
}

// render returns a message with one embed.
func render(m message.Message) ([]byte, error) {
	e := embed{
		Title:       show(notify.Headline(&m), m.URLs, maxTitle),
		Description: show(strings.TrimSpace(m.Text), m.URLs, maxDescription),
		Color:       notify.Color(&m),
	}
	// Discord does not interpret Markdown in a footer.
	if text := fit.Line(notify.Footer(&m), maxFooter, nil); text != "" {
		e.Footer = &footer{Text: text}
	}
	return json.Marshal(payload{Embeds: []embed{e}, AllowedMentions: allowedMentions{Parse: []string{}}})
}

// show escapes a text, except the addresses of its author, which Discord shows as links.
func show(text string, urls []string, limit int) string {
	return fit.Linked(fit.Pieces(text, urls), limit, escape, func(url string) string { return url })
}

// markdown are the characters with which emphasis, code, links, headings, lists, quotes,
// spoilers, mentions and times can start
// (https://support.discord.com/hc/articles/210298617).
const markdown = "\\*_~`|>#[]()<@:-"

func escape(r rune) string {
	if strings.ContainsRune(markdown, r) {
		return `\` + string(r)
	}
	return string(r)
}
