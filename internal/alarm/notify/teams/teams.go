// Package teams posts messages to a Microsoft Teams channel or chat through the webhook
// of a workflow.
//
// Teams shows the text of Events as it is. The text is in text runs, in which Teams does
// not interpret Markdown. The card declares no mentions.
package teams

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval stays below Teams' limit of four requests a second for a channel
// (https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using#rate-limiting-for-connectors).
const interval = time.Second

// New returns a notifier for the URL of a workflow, which is a secret.
func New(client *httppost.Client, webhookURL string) (*httppost.Hook, error) {
	return httppost.NewHook(client, webhookURL, httppost.HookConfig{Format: "teams", Every: interval, Render: render})
}

// Limits of texts, in characters. With them, a body never exceeds the 28 KB that Teams
// accepts, because a character has at most six bytes in JSON
// (https://learn.microsoft.com/microsoftteams/limits-specifications-teams).
const (
	maxTitle  = 250
	maxText   = 3500
	maxFooter = 400
	// maxLines limits the blocks of a card, because each has more bytes than its text.
	maxLines = 50
)

// payload is the body that a workflow for cards expects.
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

// richText is a RichTextBlock. Teams shows its text as it is, but interprets Markdown in
// a TextBlock (https://adaptivecards.io/explorer/TextRun.html).
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
	// SelectAction opens the address of a link.
	SelectAction *openURL `json:"selectAction,omitempty"`
}

// openURL is an Action.OpenUrl (https://adaptivecards.io/explorer/Action.OpenUrl.html).
type openURL struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// render returns a card with a title, a block for each line of text, and a footer.
func render(m message.Message) ([]byte, error) {
	body := []richText{block(textRun{Text: fit.Line(notify.Headline(&m), maxTitle, nil), Size: "Medium", Weight: "Bolder"})}
	for line := range strings.SplitSeq(fit.Text(m.Text, maxText, nil), "\n") {
		if line = strings.TrimSpace(line); line != "" && len(body) <= maxLines {
			body = append(body, linked(line, m.URLs))
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

// linked returns a line in which the addresses of the author of the alarm are links.
func linked(line string, urls []string) richText {
	out := richText{Type: "RichTextBlock"}
	for _, p := range fit.Pieces(line, urls) {
		run := textRun{Type: "TextRun", Text: p.Text}
		if p.URL {
			run.SelectAction = &openURL{Type: "Action.OpenUrl", URL: p.Text}
		}
		out.Inlines = append(out.Inlines, run)
	}
	return out
}

func block(run textRun) richText {
	run.Type = "TextRun"
	return richText{Type: "RichTextBlock", Inlines: []textRun{run}}
}
