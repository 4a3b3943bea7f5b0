package slack

import (
	"encoding/json"
	"fmt"

	"github.com/slack-go/slack"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
)

// botMessage is a body: the group's message as it is to read now, and what is new.
type botMessage struct {
	Root  content `json:"root"`
	Reply content `json:"reply"`
	// Since is when the group began, in seconds since 1970.
	Since int64 `json:"since,omitempty"`
}

type content struct {
	Text        string          `json:"text"`
	Blocks      json.RawMessage `json:"blocks"`
	Parse       string          `json:"parse"`
	UnfurlLinks bool            `json:"unfurl_links"`
	UnfurlMedia bool            `json:"unfurl_media"`
}

// Render makes the same blocks as for an incoming webhook; a group's message also says
// how many there were so far.
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
