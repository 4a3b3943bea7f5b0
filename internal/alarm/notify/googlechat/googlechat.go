// Package googlechat posts messages to a space of Google Chat through an incoming webhook.
//
// Google Chat shows the text of Events as it is. The text is in a card, whose HTML is escaped, and
// mentions in cards notify no one.
package googlechat

import (
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval is the pause between two messages in a space
// (https://developers.google.com/workspace/chat/limits).
const interval = time.Second

// New returns a notifier for the URL of a webhook, which is a secret.
func New(client *httppost.Client, webhookURL string) (*httppost.Hook, error) {
	return httppost.NewHook(client, webhookURL, httppost.HookConfig{Format: "googlechat", Every: interval, Classify: classify, Render: render})
}

// classify explains Google's answers for webhooks that do not exist. It answers 400 if the key in the
// URL is not complete.
func classify(r *httppost.Response) {
	wrongKey := r.Status == 400 && strings.Contains(string(r.Body), "API_KEY_INVALID")
	if wrongKey || slices.Contains([]int{401, 403, 404}, r.Status) {
		r.Class = notify.Stop
		r.Text = "the webhook or its space was deleted, or its URL is incomplete: create a new one and put its URL into the Secret"
	}
}

// Limits of texts, in characters. With them, a message never exceeds the 32,000 bytes that Google
// Chat accepts (https://developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages).
const (
	maxTitle  = 250
	maxText   = 4000
	maxFooter = 400
)

type payload struct {
	// FallbackText is what notifications show.
	FallbackText string      `json:"fallbackText"`
	Cards        []namedCard `json:"cardsV2"`
}

type namedCard struct {
	ID   string `json:"cardId"`
	Card card   `json:"card"`
}

// card has no header, because headers have no HTML and show one line only
// (https://developers.google.com/workspace/chat/api/reference/rest/v1/cards).
type card struct {
	Sections []section `json:"sections"`
}

type section struct {
	Widgets []widget `json:"widgets"`
}

type widget struct {
	TextParagraph paragraph `json:"textParagraph"`
}

type paragraph struct {
	Text string `json:"text"`
}

// render returns a card with a title, the text, and a footer.
func render(m message.Message) ([]byte, error) {
	title := notify.Headline(&m)
	widgets := []widget{show(fmt.Sprintf(`<font color="#%06X"><b>%s</b></font>`, notify.Color(&m), fit.Line(title, maxTitle, escape)))}
	if text := fit.Linked(fit.Pieces(strings.TrimSpace(m.Text), m.URLs), maxText, escape, link); text != "" {
		widgets = append(widgets, show(text))
	}
	if footer := fit.Line(notify.Footer(&m), maxFooter, escape); footer != "" {
		widgets = append(widgets, show("<i>"+footer+"</i>"))
	}
	return json.Marshal(payload{
		FallbackText: fit.Line(title, maxTitle, nil),
		Cards:        []namedCard{{ID: "message", Card: card{Sections: []section{{Widgets: widgets}}}}},
	})
}

func show(text string) widget { return widget{paragraph{text}} }

// link shows an address of the author of the alarm as a link.
func link(url string) string {
	address := html.EscapeString(url)
	return `<a href="` + address + `">` + address + `</a>`
}

// escape escapes HTML. Cards show a newline as one.
func escape(r rune) string { return html.EscapeString(string(r)) }
