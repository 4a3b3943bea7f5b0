package slack

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// replyInterval is the least time between two replies in a thread. What is within it
// shows in the count of the thread's first message alone.
const replyInterval = 30 * time.Second

// reference is what is kept of a group: where its message is, and what was done last.
type reference struct {
	// Receiver is the channel as the receiver named it: when that changes, what is
	// elsewhere is left alone.
	Receiver string `json:"receiver"`
	Channel  string `json:"channel"`
	TS       string `json:"ts"`
	// Since is when the group began, in seconds since 1970: one that begins anew has the
	// same name.
	Since int64 `json:"since"`
	// Key of the message that was accepted last, and Replied when there was a reply
	// last, in seconds since 1970.
	Key     string `json:"key"`
	Replied int64  `json:"replied"`
}

// SendInGroup edits the group's message and replies in its thread; or posts the
// group's message, if there is none or it cannot be edited any more.
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
		begun, err := b.begin(ctx, key, &m)
		begun.Lost = lost[updated.Error]
		return begun, err
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

// reply tells in the thread what is new, unless that was done for this message, or for
// another a moment ago. If there cannot be a reply, the count of the thread's first
// message tells it alone.
func (b *Bot) reply(ctx context.Context, key string, what content, r *reference) error {
	now := b.config.Clock.Now()
	if r.Key == key || now.Sub(time.Unix(r.Replied, 0)) < replyInterval {
		return nil
	}
	if _, err := b.call(ctx, "chat.postMessage", key, call{Channel: r.Channel, ThreadTS: r.TS, content: what}, unanswerable); err != nil {
		return err
	}
	r.Replied = now.Unix()
	return nil
}

// parse reads a reference of this bot's; another sink's, or another channel's, is none.
func (b *Bot) parse(former string) (*reference, bool) {
	var r reference
	if json.Unmarshal([]byte(former), &r) != nil {
		return nil, false
	}
	return &r, r.Receiver == b.config.Channel && r.TS != "" && r.Channel != ""
}

// String is what the ledger keeps.
func (r *reference) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return "" // strings and a number: it cannot be
	}
	return string(raw)
}
