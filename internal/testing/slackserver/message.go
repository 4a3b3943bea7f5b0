package slackserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"
)

// Message is a message as Slack shows it.
type Message struct {
	Channel  string  `json:"channel"`
	TS       string  `json:"ts"`
	ThreadTS string  `json:"thread_ts"`
	Text     string  `json:"text"`
	Parse    string  `json:"parse"`
	Blocks   []Block `json:"blocks"`
	// UnfurlLinks and UnfurlMedia enable previews of links.
	UnfurlLinks bool `json:"unfurl_links"`
	UnfurlMedia bool `json:"unfurl_media"`

	// Bot is the author, Edits the number of edits.
	Bot   string `json:"-"`
	Edits int    `json:"-"`
	// Posted is the time of the post, Key its Idempotency-Key.
	Posted time.Time `json:"-"`
	Key    string    `json:"-"`
}

// Block is a header, a section or a context.
type Block struct {
	Type     string `json:"type"`
	Text     *Text  `json:"text,omitempty"`
	Elements []Text `json:"elements,omitempty"`
}

// Text is a text object.
type Text struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`
	Verbatim *bool  `json:"verbatim,omitempty"`
}

// Reads returns all visible text.
func (m *Message) Reads() string {
	var all []string
	for _, b := range m.Blocks {
		if b.Text != nil {
			all = append(all, b.Text.Text)
		}
		for _, e := range b.Elements {
			all = append(all, e.Text)
		}
	}
	return strings.Join(all, "\n")
}

// Limits of Slack, in characters or elements
// (https://docs.slack.dev/reference/block-kit/blocks and the pages of both methods).
const (
	maxText       = 40000
	maxEditedText = 4000
	maxBlocks     = 50
	maxElements   = 10
	maxHeader     = 150
	maxSection    = 3000
)

// read returns the arguments of a call, or Slack's error code.
func read(r *http.Request) (*Message, string) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return nil, "invalid_post_type"
	}
	var m Message
	arguments := json.NewDecoder(r.Body)
	arguments.DisallowUnknownFields()
	if arguments.Decode(&m) != nil {
		return nil, "invalid_arguments"
	}
	switch {
	case m.Text == "":
		return nil, "no_text"
	case length(m.Text) > maxText:
		return nil, "msg_too_long"
	case len(m.Blocks) > maxBlocks:
		return nil, "invalid_blocks"
	}
	for _, b := range m.Blocks {
		if !b.valid() {
			return nil, "invalid_blocks"
		}
	}
	m.Key, m.Posted = r.Header.Get("Idempotency-Key"), time.Now() // the wall clock, because the caller may be another process
	return &m, ""
}

func (b *Block) valid() bool {
	switch b.Type {
	case "header":
		return b.Text.within(maxHeader) && b.Text.Type == "plain_text" && b.Elements == nil
	case "section":
		return b.Text.within(maxSection) && b.Elements == nil
	case "context":
		for i := range b.Elements {
			if !b.Elements[i].within(maxSection) {
				return false
			}
		}
		return b.Text == nil && len(b.Elements) > 0 && len(b.Elements) <= maxElements
	}
	return false
}

// within reports whether t is a valid text of 1 to most characters.
func (t *Text) within(most int) bool {
	if t == nil || t.Type != "plain_text" && t.Type != "mrkdwn" || t.Type == "mrkdwn" && t.Emoji != nil {
		return false
	}
	n := length(t.Text)
	return n > 0 && n <= most
}

// length returns the number of UTF-16 code units, the strictest way to count characters.
func length(s string) int { return len(utf16.Encode([]rune(s))) }
