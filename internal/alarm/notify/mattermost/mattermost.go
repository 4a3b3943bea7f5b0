// Package mattermost posts messages to a Mattermost channel through an incoming webhook.
//
// Mattermost shows the text of Events as it is. The text is in an attachment with escaped Markdown.
// Characters without width separate what would be mentions and links.
package mattermost

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval is for the people in a channel. A server that limits requests accepts 10 a second
// (https://docs.mattermost.com/configure/rate-limiting-configuration-settings.html).
const interval = time.Second

// New returns a notifier for the URL of a webhook, which is a secret.
func New(client *httppost.Client, webhookURL string) (*httppost.Hook, error) {
	return httppost.NewHook(client, webhookURL, httppost.HookConfig{Format: "mattermost", Every: interval, Classify: classify, Render: render})
}

// classify explains Mattermost's answers for webhooks that cannot be used. It answers 400 and an ID
// if the webhook does not exist, and 501 if the server does not allow webhooks.
func classify(r *httppost.Response) {
	switch {
	case r.Status == 400 && strings.Contains(string(r.Body), "web.incoming_webhook.invalid.app_error"), r.Status == 404:
		r.Class, r.Text = notify.Stop, "the webhook was deleted, or its URL is incomplete: create a new one and put its URL into the Secret"
	case r.Status == 501:
		r.Class, r.Text = notify.Stop, "the server allows no incoming webhooks: an administrator enables them in its System Console"
	}
}

// Limits of texts, in characters. Mattermost shows 300 of a footer
// (https://developers.mattermost.com/integrate/reference/message-attachments).
const (
	maxTitle  = 250
	maxText   = 4000
	maxFooter = 300
)

type payload struct {
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	// Fallback is what notifications show, without Markdown.
	Fallback string `json:"fallback"`
	Color    string `json:"color"`
	Title    string `json:"title"`
	Text     string `json:"text,omitempty"`
	Footer   string `json:"footer,omitempty"`
}

// render returns a message with one attachment.
func render(m message.Message) ([]byte, error) {
	title := notify.Headline(&m)
	return json.Marshal(payload{[]attachment{{
		Fallback: fit.Line(title, maxTitle, nil),
		Color:    fmt.Sprintf("#%06X", notify.Color(&m)),
		Title:    show(title, m.URLs, maxTitle),
		Text:     show(strings.TrimSpace(m.Text), m.URLs, maxText),
		Footer:   fit.Line(notify.Footer(&m), maxFooter, nil),
	}}})
}

// show neutralizes a text, except the addresses of its author, which Mattermost shows as links.
func show(text string, urls []string, limit int) string {
	pieces := fit.Pieces(text, urls)
	for i := range pieces {
		if p := &pieces[i]; !p.URL {
			p.Text = separate(p.Text, i == 0)
		}
	}
	return fit.Linked(pieces, limit, escape, func(url string) string { return url })
}

// markdown are the characters that Mattermost shows as they are after a backslash. Emphasis, code,
// links, headings, lists, quotes and tables start with them.
const markdown = "\\`*{}[]()#+-.!_~|"

// escape also escapes HTML: before it reads Markdown, Mattermost replaces Slack's <!channel>, <@user>
// and <url|text>.
func escape(r rune) string {
	if strings.ContainsRune(markdown, r) {
		return `\` + string(r)
	}
	if strings.ContainsRune("<>&", r) {
		return html.EscapeString(string(r))
	}
	return string(r)
}

// wordJoiner is a character without width.
const wordJoiner = '\u2060'

// token is what Mattermost interprets also after a backslash: URLs, emojis, hashtags, links to channels,
// and addresses.
var token = regexp.MustCompile(`^(://|:([\w+-]*[A-Za-z_+-][\w+-]*|100|1234):|[#~][\pL\w]|@[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,})`)

// maxToken is more than the bytes of an emoji's longest name.
const maxToken = 80

// scheme is the end of the text before the colon of a URL, which needs no slashes.
var scheme = regexp.MustCompile(`(?i)(https?|ftp|mailto|tel)$`)

// separate adds a word joiner to each mention, and to each token of Mattermost, after its first
// character. It adds one before a line that would be a heading or code. Names of images and objects
// stay as they are, so that users can copy them. The text is clean: otherwise, cleaning it could join
// what is separated here.
func separate(text string, beginsLine bool) string {
	var b strings.Builder
	previous := ' '
	if beginsLine {
		previous = '\n'
	}
	for i, r := range text {
		if previous == '\n' && (r == '=' || r == ' ') {
			b.WriteRune(wordJoiner)
		}
		b.WriteRune(r)
		isMention := r == '@' && !isASCIIWord(previous)
		isURL := r == ':' && scheme.MatchString(text[max(0, i-len("mailto")):i])
		if isMention || isURL || token.MatchString(text[i:min(len(text), i+maxToken)]) {
			b.WriteRune(wordJoiner)
		}
		previous = r
	}
	return b.String()
}

func isASCIIWord(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
