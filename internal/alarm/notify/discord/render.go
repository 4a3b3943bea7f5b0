package discord

import (
	"encoding/json"
	"strings"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

// Limits of an embed, in characters; all of it together may have 6,000
// (https://discord.com/developers/docs/resources/message#embed-object-embed-limits).
const (
	maxTitle       = 256
	maxDescription = 4096
	maxFooter      = 1024
)

// Colours of embeds.
const (
	red   = 0xD93F3F
	green = 0x3FA45B
	blue  = 0x4A90D9
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

// allowedMentions without any is that none notifies
// (https://discord.com/developers/docs/resources/message#allowed-mentions-object).
type allowedMentions struct {
	Parse []string `json:"parse"`
}

// Render makes a message of one embed.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	e := embed{
		Title:       fit.Line(notify.Headline(&m), maxTitle, escape),
		Description: fit.Text(strings.TrimSpace(m.Text), maxDescription, escape),
		Color:       colour(&m),
	}
	// A footer is no Markdown.
	if text := fit.Line(notify.Footer(&m), maxFooter, nil); text != "" {
		e.Footer = &footer{Text: text}
	}
	return json.Marshal(payload{Embeds: []embed{e}, AllowedMentions: allowedMentions{Parse: []string{}}})
}

func colour(m *message.Message) int {
	switch {
	case notify.IsResolved(m):
		return green
	case notify.IsWarning(m):
		return red
	default:
		return blue
	}
}

// markdown are the characters that may begin something other than text: emphasis,
// code, links, headings, lists, quotes, spoilers, mentions and times
// (https://support.discord.com/hc/articles/210298617).
const markdown = "\\*_~`|>#[]()<@:-"

func escape(r rune) string {
	if strings.ContainsRune(markdown, r) {
		return `\` + string(r)
	}
	return string(r)
}
