// Package telegram sends messages to a Telegram chat as a bot.
//
// Telegram shows the text of Events as it is. The text is marked as code, in which
// Telegram finds no mentions, commands or links. Messages have no parse mode.
package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval stays at Telegram's limit of 20 messages a minute for a bot in a group
// (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).
const interval = 3 * time.Second

// DefaultURL is the URL of Telegram's Bot API.
const DefaultURL = "https://api.telegram.org"

// Config configures the bot and its chat.
type Config struct {
	// URL of the Bot API.
	URL string
	// Token is the bot's token, which is a secret.
	Token string
	// ChatID is a number, or the @name of a public chat.
	ChatID string
	// ThreadID is a topic of the chat; 0 means no topic.
	ThreadID int64
}

// Notifier sends to one chat.
type Notifier struct {
	*httppost.Hook
	chat chat
}

// chat holds the fields of a request that the rendered body does not contain.
type chat struct {
	ChatID          string `json:"chat_id"`
	MessageThreadID int64  `json:"message_thread_id,omitempty"`
}

var _ notify.Notifier = (*Notifier)(nil)

// token matches bot tokens. The token becomes part of a URL.
var token = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]+$`)

var errToken = errors.New("the value is not a bot token: use the one that BotFather shows, a number, a colon, and letters and digits")

// New returns a Notifier. Errors do not reveal the token.
func New(client *httppost.Client, c Config) (*Notifier, error) {
	secret := strings.TrimSpace(c.Token)
	if !token.MatchString(secret) {
		return nil, errToken
	}
	url := strings.TrimSuffix(c.URL, "/") + "/bot" + secret + "/sendMessage"
	hook, err := httppost.NewHook(client, url, httppost.HookConfig{Format: "telegram:" + c.ChatID, Every: interval, Classify: classify})
	if err != nil {
		return nil, err
	}
	return &Notifier{Hook: hook, chat: chat{ChatID: c.ChatID, MessageThreadID: c.ThreadID}}, nil
}

// Format of the bodies.
func (n *Notifier) Format() string { return "telegram" }

// Send adds the chat to the body and posts it.
func (n *Notifier) Send(ctx context.Context, key string, body []byte) error {
	addressed := struct {
		chat
		payload
	}{chat: n.chat}
	if err := json.Unmarshal(body, &addressed.payload); err != nil {
		return err
	}
	raw, err := json.Marshal(addressed)
	if err != nil {
		return err
	}
	return n.Hook.Send(ctx, key, raw)
}

// answer is the Bot API's answer to a failed request
// (https://core.telegram.org/bots/api#making-requests). It has no error codes other than
// the status. The description explains a 400.
type answer struct {
	Description string `json:"description"`
	Parameters  struct {
		RetryAfter int64 `json:"retry_after"`
	} `json:"parameters"`
}

// badRequests explain a 400 that is about the chat and not about the message. The prefix
// is that of the description after "Bad Request: ".
var badRequests = []struct{ prefix, text string }{
	{"chat not found", "the chat does not exist, or the bot is not in it: add the bot, or correct spec.telegram.chatID"},
	{"group chat was upgraded", "the group became a supergroup with another ID: set it in spec.telegram.chatID"},
	{"message thread not found", "the topic does not exist: correct spec.telegram.threadID"},
	{"topic_closed", "the topic is closed: open it and annotate the receiver"},
	{"not enough rights", "the bot may not write to this chat: permit it and annotate the receiver"},
	{"need administrator rights", "the bot may not write to this channel: make it an administrator there and annotate the receiver"},
	{"chat_write_forbidden", "the bot may not write to this chat: permit it and annotate the receiver"},
}

func classify(r *httppost.Response) {
	if r.Accepted {
		return
	}
	var a answer
	_ = json.Unmarshal(r.Body, &a) // without a description, the status decides
	const maxSeconds = 24 * 60 * 60
	r.RetryAfter = max(r.RetryAfter, time.Duration(min(max(a.Parameters.RetryAfter, 0), maxSeconds))*time.Second)
	switch r.Status {
	case http.StatusUnauthorized, http.StatusNotFound:
		r.Text = "the bot's token is not valid: put the one that BotFather shows into the Secret"
	case http.StatusForbidden:
		r.Text = "the bot was removed from the chat or blocked: add it again and annotate the receiver"
	case http.StatusBadRequest:
		classifyBadRequest(r, &a)
	}
}

func classifyBadRequest(r *httppost.Response, a *answer) {
	description := strings.ToLower(strings.TrimPrefix(a.Description, "Bad Request: "))
	for _, known := range badRequests {
		if strings.HasPrefix(description, known.prefix) {
			r.Refuse(notify.Stop, known.text)
			return
		}
	}
}

// Limits of the parts, in UTF-16 code units. A message has at most 4,096
// (https://core.telegram.org/bots/api#sendmessage).
const (
	maxTitle  = 256
	maxText   = 3300
	maxFooter = 500
)

// payload is the body without the chat.
type payload struct {
	Text               string      `json:"text"`
	Entities           []entity    `json:"entities"`
	LinkPreviewOptions linkPreview `json:"link_preview_options"`
}

type linkPreview struct {
	IsDisabled bool `json:"is_disabled"`
}

// entity marks a part of the text, in UTF-16 code units. Code contains no other entities
// (https://core.telegram.org/bots/api#messageentity).
type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	URL    string `json:"url,omitempty"`
}

// Render returns a title, the text and a footer. Each is marked as code.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	out := payload{LinkPreviewOptions: linkPreview{IsDisabled: true}}
	out.add("code", fit.Line(notify.Headline(&m), maxTitle, nil))
	out.addText(strings.TrimSpace(fit.Text(strings.TrimSpace(m.Text), maxText, nil)), m.URLs)
	out.add("code", fit.Line(notify.Footer(&m), maxFooter, nil))
	return json.Marshal(out)
}

// addText adds a text. If it has addresses of the author of the alarm, these are links, and the rest
// of each line is code.
func (p *payload) addText(text string, urls []string) {
	pieces := fit.Pieces(text, urls)
	if !slices.ContainsFunc(pieces, func(p fit.Piece) bool { return p.URL }) {
		p.add("pre", text)
		return
	}
	p.Text += "\n"
	for _, piece := range pieces {
		if piece.URL {
			p.mark(entity{Type: "text_link", URL: piece.Text}, piece.Text)
		} else {
			p.mark(entity{Type: "code"}, piece.Text)
		}
	}
}

func (p *payload) add(kind, text string) {
	if text == "" {
		return
	}
	if p.Text != "" {
		p.Text += "\n"
	}
	p.mark(entity{Type: kind}, text)
}

// mark adds a text with an entity.
func (p *payload) mark(e entity, text string) {
	e.Offset, e.Length = fit.Length(p.Text), fit.Length(text)
	p.Entities, p.Text = append(p.Entities, e), p.Text+text
}
