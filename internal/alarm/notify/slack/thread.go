package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/slack-go/slack"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// botMessage is a body: the current text of the group's message, and the reply about
// the new occurrences.
type botMessage struct {
	Root  content `json:"root"`
	Reply content `json:"reply"`
	// Since is when the group started, in Unix seconds.
	Since int64 `json:"since,omitempty"`
}

type content struct {
	Text        string          `json:"text"`
	Blocks      json.RawMessage `json:"blocks"`
	Parse       string          `json:"parse"`
	UnfurlLinks bool            `json:"unfurl_links"`
	UnfurlMedia bool            `json:"unfurl_media"`
}

// Render returns the same blocks as for an incoming webhook. A group's message also
// shows the total number of occurrences.
func (b *Bot) Render(m message.Message) ([]byte, error) {
	reply := blocks(&m)
	root := blocks(&m)
	var out botMessage
	if m.Group != nil {
		out.Since = m.Group.Since.Unix()
		root = append(root, slack.NewContextBlock("", plain(total(m.Group))))
	}
	text := escapeLine(notify.Headline(&m), maxFallback)
	for to, blocks := range map[*content][]slack.Block{&out.Root: root, &out.Reply: reply} {
		raw, err := json.Marshal(blocks)
		if err != nil {
			return nil, err
		}
		*to = content{Text: text, Blocks: raw, Parse: "none"}
	}
	return json.Marshal(out)
}

func total(g *message.Group) string {
	if g.Total == 1 {
		return "once so far"
	}
	return fmt.Sprintf("%d times so far", g.Total)
}

// replyInterval is the minimum time between two replies in a thread. Messages within it
// only update the count in the thread's first message.
const replyInterval = 30 * time.Second

// reference is the Threaded.Reference of a group: its message and its last reply.
type reference struct {
	// Receiver is spec.slack.channel. When it changes, the bot posts a new message and
	// does not edit the former one.
	Receiver string `json:"receiver"`
	Channel  string `json:"channel"`
	TS       string `json:"ts"`
	// Since is when the group started, in Unix seconds. A group that starts again has
	// the same key.
	Since int64 `json:"since"`
	// Key is the idempotency key of the last accepted message, Replied the time of the
	// last reply in Unix seconds.
	Key     string `json:"key"`
	Replied int64  `json:"replied"`
}

// SendInGroup edits the group's message and replies in its thread. If there is no
// message, or it can no longer be edited, it posts a new one.
func (b *Bot) SendInGroup(ctx context.Context, key string, body []byte, former string) (notify.Threaded, error) {
	var m botMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return notify.Threaded{}, err
	}
	r, known := b.parse(former)
	if !known || r.Since != m.Since {
		return b.begin(ctx, key, &m)
	}
	updated, err := b.call(ctx, "chat.update", key, call{Channel: r.Channel, TS: r.TS, content: m.Root}, lost)
	if err != nil {
		return notify.Threaded{}, err
	}
	if !updated.OK {
		started, err := b.begin(ctx, key, &m)
		started.Lost = lost[updated.Error]
		return started, err
	}
	if err := b.reply(ctx, key, m.Reply, r); err != nil {
		return notify.Threaded{}, err
	}
	r.Key = key
	return notify.Threaded{Reference: r.String()}, nil
}

// begin posts the first message of a thread.
func (b *Bot) begin(ctx context.Context, key string, m *botMessage) (notify.Threaded, error) {
	at, err := b.call(ctx, "chat.postMessage", key, call{Channel: b.config.Channel, content: m.Root}, nil)
	if err != nil {
		return notify.Threaded{}, err
	}
	r := &reference{
		Receiver: b.config.Channel, Channel: at.Channel, TS: at.TS, Since: m.Since, Key: key, Replied: b.config.Clock.Now().Unix(),
	}
	return notify.Threaded{Reference: r.String()}, nil
}

// reply posts the new occurrences in the thread. It posts nothing if this message
// already has a reply, or if the last reply is more recent than replyInterval. If Slack
// refuses a reply, only the first message shows the new count.
func (b *Bot) reply(ctx context.Context, key string, text content, r *reference) error {
	now := b.config.Clock.Now()
	if r.Key == key || now.Sub(time.Unix(r.Replied, 0)) < replyInterval {
		return nil
	}
	if _, err := b.call(ctx, "chat.postMessage", key, call{Channel: r.Channel, ThreadTS: r.TS, content: text}, unanswerable); err != nil {
		return err
	}
	r.Replied = now.Unix()
	return nil
}

// parse reads a reference. It reports false for a reference of another receiver type or
// of another channel.
func (b *Bot) parse(former string) (*reference, bool) {
	var r reference
	if json.Unmarshal([]byte(former), &r) != nil {
		return nil, false
	}
	return &r, r.Receiver == b.config.Channel && r.TS != "" && r.Channel != ""
}

// String returns the form that the outbox stores.
func (r *reference) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return "" // not possible: the fields are strings and numbers
	}
	return string(raw)
}
