package telegram

import (
	"encoding/json"
	"strings"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

// Limits of the parts, in UTF-16 code units: all of a message has at most 4,096
// (https://core.telegram.org/bots/api#sendmessage).
const (
	maxTitle  = 256
	maxText   = 3300
	maxFooter = 500
)

// message is the body but for the chat.
type payload struct {
	Text               string      `json:"text"`
	Entities           []entity    `json:"entities"`
	LinkPreviewOptions linkPreview `json:"link_preview_options"`
}

type linkPreview struct {
	IsDisabled bool `json:"is_disabled"`
}

// entity marks a part of the text, in UTF-16 code units. Within code there are no
// other entities (https://core.telegram.org/bots/api#messageentity).
type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
}

// Render makes a title, the text and a line of where it comes from, each of them code.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	out := payload{LinkPreviewOptions: linkPreview{IsDisabled: true}}
	out.add("code", fit.Line(notify.Headline(&m), maxTitle, nil))
	out.add("pre", strings.TrimSpace(fit.Text(strings.TrimSpace(m.Text), maxText, nil)))
	out.add("code", fit.Line(notify.Footer(&m), maxFooter, nil))
	return json.Marshal(out)
}

func (m *payload) add(kind, text string) {
	if text == "" {
		return
	}
	if m.Text != "" {
		m.Text += "\n"
	}
	m.Entities = append(m.Entities, entity{Type: kind, Offset: fit.Length(m.Text), Length: fit.Length(text)})
	m.Text += text
}
