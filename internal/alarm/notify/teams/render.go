package teams

import (
	"encoding/json"
	"strings"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

// Limits of texts, in characters, so that a body is never above the 28 KB that Teams
// takes (https://learn.microsoft.com/microsoftteams/limits-specifications-teams):
// in JSON a character may take up six bytes.
const (
	maxTitle  = 250
	maxText   = 3500
	maxFooter = 400
)

// message is what a workflow that posts cards takes.
type payload struct {
	Type        string       `json:"type"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	ContentType string `json:"contentType"`
	Content     card   `json:"content"`
}

// card is an Adaptive Card (https://adaptivecards.io/explorer/AdaptiveCard.html).
type card struct {
	Schema  string     `json:"$schema"`
	Type    string     `json:"type"`
	Version string     `json:"version"`
	Body    []richText `json:"body"`
	MSTeams msTeams    `json:"msteams"`
}

type msTeams struct {
	Width string `json:"width"`
}

// richText is a block whose runs are shown as they are: unlike a TextBlock's, their
// text is no Markdown (https://adaptivecards.io/explorer/TextRun.html).
type richText struct {
	Type    string    `json:"type"`
	Inlines []textRun `json:"inlines"`
}

type textRun struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Size     string `json:"size,omitempty"`
	Weight   string `json:"weight,omitempty"`
	IsSubtle bool   `json:"isSubtle,omitempty"`
}

// Render makes a card of a title, a block for each line of text and a line of where
// it comes from.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	body := []richText{block(textRun{Text: fit.Line(notify.Headline(&m), maxTitle, nil), Size: "Medium", Weight: "Bolder"})}
	for line := range strings.SplitSeq(fit.Text(m.Text, maxText, nil), "\n") {
		if line = strings.TrimSpace(line); line != "" && len(body) <= maxLines {
			body = append(body, block(textRun{Text: line}))
		}
	}
	if footer := fit.Line(notify.Footer(&m), maxFooter, nil); footer != "" {
		body = append(body, block(textRun{Text: footer, Size: "Small", IsSubtle: true}))
	}
	return json.Marshal(payload{Type: "message", Attachments: []attachment{{
		ContentType: "application/vnd.microsoft.card.adaptive",
		Content: card{
			Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.2",
			Body: body, MSTeams: msTeams{Width: "Full"},
		},
	}}})
}

// maxLines bounds the blocks of a card: each costs more than its text.
const maxLines = 50

func block(run textRun) richText {
	run.Type = "TextRun"
	return richText{Type: "RichTextBlock", Inlines: []textRun{run}}
}
