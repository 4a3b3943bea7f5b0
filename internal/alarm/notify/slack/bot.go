package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
)

// DefaultAPI is Slack's own Web API.
const DefaultAPI = "https://slack.com/api"

// botInterval keeps below the 50 updates a minute that Slack grants a bot
// (https://docs.slack.dev/apis/web-api/rate-limits), and below one message a second.
const botInterval = 1500 * time.Millisecond

// BotConfig says which bot speaks in which channel.
type BotConfig struct {
	API string
	// Token of the bot, a secret.
	Token   string
	Channel string
	// Clock tells how long ago the last reply in a thread was.
	Clock clock.PassiveClock
}

// Bot posts with chat.postMessage: one message for each group, which it edits, with
// what is new in its thread.
type Bot struct {
	client *httppost.Client
	config BotConfig
	header http.Header
}

var _ notify.Threader = (*Bot)(nil)

var (
	token    = regexp.MustCompile(`^xox[a-z]-[A-Za-z0-9-]+$`)
	errToken = errors.New("this is not a bot's token, which begins with xoxb-")
)

// NewBot returns a Bot, or an error that does not tell the token.
func NewBot(client *httppost.Client, c BotConfig) (*Bot, error) {
	c.Token, c.API = strings.TrimSpace(c.Token), strings.TrimSuffix(c.API, "/")
	if !token.MatchString(c.Token) {
		return nil, errToken
	}
	if err := httppost.CheckURL(c.API); err != nil {
		return nil, err
	}
	header := http.Header{"Authorization": {"Bearer " + c.Token}, "Content-Type": {"application/json; charset=utf-8"}}
	return &Bot{client: client, config: c, header: header}, nil
}

// Limit is shared by the receivers of the same bot and channel.
func (b *Bot) Limit() notify.Limit {
	sum := sha256.Sum256([]byte(b.config.Token + "\x00" + b.config.Channel))
	return notify.Limit{Key: "slack:" + hex.EncodeToString(sum[:]), Every: botInterval}
}

// Format of the bodies.
func (b *Bot) Format() string { return "slack/bot" }

// Send posts the body to the channel.
func (b *Bot) Send(ctx context.Context, key string, body []byte) error {
	var m botMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	_, err := b.call(ctx, "chat.postMessage", key, call{Channel: b.config.Channel, content: m.Root}, nil)
	return err
}

// call is what chat.postMessage and chat.update take.
type call struct {
	Channel  string `json:"channel"`
	TS       string `json:"ts,omitempty"`        // which message to update
	ThreadTS string `json:"thread_ts,omitempty"` // which message to reply to
	content
}

// posted is where a message is.
type posted struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
}

// call makes one request. What went wrong is an error, unless it is among those that
// the caller knows how to go on after: then the answer's Error tells it.
func (b *Bot) call(ctx context.Context, method, key string, c call, bearable map[string]string) (*posted, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var answer posted
	err = b.client.Post(ctx, httppost.Request{
		URL: b.config.API + "/" + method, Header: b.header, Key: key, Body: body,
		Judge: func(a *httppost.Answer) { judgeCall(a, &answer, bearable) },
	})
	return &answer, err
}
