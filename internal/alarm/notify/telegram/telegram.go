// Package telegram has a Telegram bot send messages to a chat.
//
// Whatever an Event says is shown and never acted on: it is marked as code, in which
// Telegram finds no mentions, commands or links, and no parse mode is used.
package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// interval keeps below the 20 messages a minute that Telegram takes of a bot for a
// group (https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).
const interval = 3 * time.Second

// DefaultURL is Telegram's own server of the Bot API.
const DefaultURL = "https://api.telegram.org"

// Config says which bot speaks to which chat.
type Config struct {
	// URL of the server of the Bot API.
	URL string
	// Token of the bot, a secret.
	Token string
	// ChatID is a number, or the @name of a public chat.
	ChatID string
	// ThreadID is a topic of the chat; 0 is none.
	ThreadID int64
}

// Notifier sends to one chat.
type Notifier struct {
	*httppost.Hook
	chat chat
}

// chat is what a body is addressed with when it is sent.
type chat struct {
	ChatID          string `json:"chat_id"`
	MessageThreadID int64  `json:"message_thread_id,omitempty"`
}

var _ notify.Notifier = (*Notifier)(nil)

// token is what a bot's looks like: it becomes part of a URL.
var token = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]+$`)

var errToken = errors.New("this is not a bot's token, which is a number, a colon, and letters and digits, as BotFather shows it")

// New returns a Notifier, or an error that does not tell the token.
func New(client *httppost.Client, c Config) (*Notifier, error) {
	secret := strings.TrimSpace(c.Token)
	if !token.MatchString(secret) {
		return nil, errToken
	}
	url := strings.TrimSuffix(c.URL, "/") + "/bot" + secret + "/sendMessage"
	hook, err := httppost.NewHook(client, url, httppost.HookConfig{Sink: "telegram:" + c.ChatID, Every: interval, Judge: judge})
	if err != nil {
		return nil, err
	}
	return &Notifier{Hook: hook, chat: chat{ChatID: c.ChatID, MessageThreadID: c.ThreadID}}, nil
}

// Format of the bodies.
func (n *Notifier) Format() string { return "telegram" }

// Send addresses the body to the chat and posts it.
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
