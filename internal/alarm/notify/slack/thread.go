package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// Render returns the same blocks as for an incoming webhook.
func (b *Bot) Render(m message.Message) ([]byte, error) {
	var out botMessage
	var err error
	if out.Root, err = contentOf(&m, b.config.Mentions); err != nil {
		return nil, err
	}
	if len(b.config.Mentions) > 0 {
		if out.Reply, err = contentOf(&m, nil); err != nil {
			return nil, err
		}
	}
	if channel := b.config.Choose(&m); channel != b.config.Default {
		out.Channel = channel
	}
	if m.Group != nil {
		out.Since = m.Group.Since.Unix()
	}
	if out.Notice = m.Acknowledged != nil; out.Notice {
		out.Root, out.Reply = content{}, noticeOf(m.Acknowledged)
	}
	return json.Marshal(out)
}

// contentOf returns the text of a message with mentions.
func contentOf(m *message.Message, mentions Mentions) (content, error) {
	raw, err := json.Marshal(blocks(m, mentions))
	return content{Text: escapeLine(notify.Headline(m), maxFallback), Blocks: raw, Parse: "none"}, err
}

// reply returns the text of the reply.
func (m *botMessage) reply() content {
	if m.Reply.Blocks != nil {
		return m.Reply
	}
	return m.Root
}

// replyInterval is the minimum time between two replies in a thread. Messages within it
// only update the count in the thread's first message.
const replyInterval = 30 * time.Second

// reference is the Threaded.Reference of a group: its message and its last reply.
type reference struct {
	// Receiver is the channel as Channels.Choose returns it. If the receiver no longer includes
	// it, the bot posts a new message and does not edit the former one.
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

// SendInGroup edits the group's message and replies in its thread, also if the channel of the
// label has changed. If there is no message, or it can no longer be edited, or Slack refuses its
// channel, it posts a new one.
func (b *Bot) SendInGroup(ctx context.Context, key string, body []byte, former string) (notify.Threaded, error) {
	var m botMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return notify.Threaded{}, err
	}
	r, known := b.parse(former)
	if m.Notice {
		return b.notify(ctx, key, &m, r, known, former)
	}
	if !known || r.Since != m.Since {
		return b.begin(ctx, key, &m)
	}
	updated, err := b.call(ctx, "chat.update", key, call{Channel: r.Channel, TS: r.TS, content: m.Root}, b.tolerated(r.Receiver, lost))
	if err != nil {
		return notify.Threaded{}, err
	}
	if !updated.OK {
		return b.beginAgain(ctx, key, &m, cmp.Or(lost[updated.Error], isRefused))
	}
	accepted, err := b.reply(ctx, key, m.reply(), r)
	if err != nil {
		return notify.Threaded{}, err
	}
	if !accepted {
		return b.beginAgain(ctx, key, &m, isRefused)
	}
	r.Key = key
	return notify.Threaded{Reference: r.String()}, nil
}

// noticeOf returns the reply that says who acknowledged a group.
func noticeOf(a *message.Acknowledgement) content {
	text := "Acknowledged by " + a.By + ". No further messages until this is resolved."
	blocks := []slack.Block{slack.NewSectionBlock(plain(escape("👀 "+text, maxSection)), nil, nil)}
	if comment := escape(strings.TrimSpace(a.Comment), maxSection); comment != "" {
		blocks = append(blocks, slack.NewSectionBlock(plain(comment), nil, nil))
	}
	blocks = append(blocks, slack.NewContextBlock("", markdown(date(a.At))))
	raw, err := json.Marshal(blocks)
	if err != nil { // not possible: the blocks are texts
		return content{}
	}
	return content{Text: escapeLine(text, maxFallback), Blocks: raw, Parse: "none"}
}

// notify replies that the group was acknowledged. It sends nothing if there is no thread, because
// the receiver then got no message of the group.
func (b *Bot) notify(ctx context.Context, key string, m *botMessage, r *reference, known bool, former string) (notify.Threaded, error) {
	if !known || r.Since != m.Since || r.Key == key {
		return notify.Threaded{Reference: former}, nil
	}
	if _, err := b.call(ctx, "chat.postMessage", key, call{Channel: r.Channel, ThreadTS: r.TS, content: m.Reply}, b.tolerated(r.Receiver, unanswerable)); err != nil {
		return notify.Threaded{}, err
	}
	r.Key = key
	return notify.Threaded{Reference: r.String()}, nil
}

// begin posts the first message of a thread.
func (b *Bot) begin(ctx context.Context, key string, m *botMessage) (notify.Threaded, error) {
	at, channel, err := b.post(ctx, key, b.channelOf(m), m.Root)
	if err != nil {
		return notify.Threaded{}, err
	}
	r := &reference{
		Receiver: channel, Channel: at.Channel, TS: at.TS, Since: m.Since, Key: key, Replied: b.config.Clock.Now().Unix(),
	}
	return notify.Threaded{Reference: r.String()}, nil
}

// beginAgain posts a new message, because the former one cannot be continued.
func (b *Bot) beginAgain(ctx context.Context, key string, m *botMessage, why string) (notify.Threaded, error) {
	started, err := b.begin(ctx, key, m)
	started.Lost = why
	return started, err
}

// reply posts the new occurrences in the thread. It posts nothing if this message
// already has a reply, or if the last reply is more recent than replyInterval. If Slack
// refuses a reply, only the first message shows the new count. accepted is false if Slack refuses
// the channel.
func (b *Bot) reply(ctx context.Context, key string, text content, r *reference) (accepted bool, err error) {
	now := b.config.Clock.Now()
	since := now.Sub(time.Unix(r.Replied, 0))
	recent := since >= 0 && since < replyInterval // not if the clock was set back
	if r.Key == key || recent {
		return true, nil
	}
	at, err := b.call(ctx, "chat.postMessage", key, call{Channel: r.Channel, ThreadTS: r.TS, content: text}, b.tolerated(r.Receiver, unanswerable))
	if err != nil {
		return false, err
	}
	r.Replied = now.Unix()
	return at.OK || unanswerable[at.Error] != "", nil
}

// parse reads a reference. It reports false for a reference of another receiver type or
// of a channel that the receiver does not include.
func (b *Bot) parse(former string) (*reference, bool) {
	var r reference
	if json.Unmarshal([]byte(former), &r) != nil {
		return nil, false
	}
	return &r, b.config.includes(r.Receiver) && r.TS != "" && r.Channel != ""
}

// String returns the form that the outbox stores.
func (r *reference) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return "" // not possible: the fields are strings and numbers
	}
	return string(raw)
}
