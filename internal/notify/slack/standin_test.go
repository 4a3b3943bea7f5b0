package slack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"
)

const botToken = "xoxb-secret-token"

// workspace stands in for Slack's Web API: one channel, and the limits that Slack
// documents of messages and blocks (https://docs.slack.dev/reference/block-kit/blocks).
type workspace struct {
	server *httptest.Server

	mu       sync.Mutex
	fail     string // what every call is refused with
	channel  string
	messages map[string]*slackMessage
	order    []string
}

type slackMessage struct {
	Channel, Text, TS string
	ThreadTS          string `json:"thread_ts"`
	Parse             string
	Blocks            []struct {
		Type     string
		Text     object
		Elements []object
	}
	edits int
}

func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	w := &workspace{channel: "C0123", messages: map[string]*slackMessage{}}
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

func (w *workspace) refuse(with string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = with
}

func (w *workspace) remove(ts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.messages, ts)
}

// shown are the messages in the order of their posting.
func (w *workspace) shown() []*slackMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*slackMessage
	for _, ts := range w.order {
		if m := w.messages[ts]; m != nil {
			all = append(all, m)
		}
	}
	return all
}

func (w *workspace) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := map[string]any{"ok": true}
	if problem := w.do(r, answer); problem != "" {
		answer = map[string]any{"ok": false, "error": problem}
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

func (w *workspace) do(r *http.Request, answer map[string]any) string {
	var m slackMessage
	switch {
	case r.Header.Get("Authorization") != "Bearer "+botToken:
		return "invalid_auth"
	case w.fail != "":
		return w.fail
	case json.NewDecoder(r.Body).Decode(&m) != nil:
		return "invalid_json"
	case m.Channel != w.channel:
		return "channel_not_found"
	case problem(&m) != "":
		return problem(&m)
	}
	switch former := w.messages[m.TS]; {
	case strings.HasSuffix(r.URL.Path, "/chat.postMessage"):
		if m.ThreadTS != "" && w.messages[m.ThreadTS] == nil {
			return "thread_not_found"
		}
		m.TS = fmt.Sprintf("1700000000.%06d", len(w.order))
		w.order = append(w.order, m.TS)
	case !strings.HasSuffix(r.URL.Path, "/chat.update"):
		return "unknown_method"
	case former == nil:
		return "message_not_found"
	default:
		m.edits = former.edits + 1
	}
	w.messages[m.TS] = &m
	answer["channel"], answer["ts"] = m.Channel, m.TS
	return ""
}

func problem(m *slackMessage) string {
	if m.Text == "" || m.Parse != "none" {
		return "no_text"
	}
	length := func(s string) int { return len(utf16.Encode([]rune(s))) }
	if length(m.Text) > 40000 {
		return "msg_too_long"
	}
	if len(m.Blocks) > 50 {
		return "invalid_blocks"
	}
	for _, b := range m.Blocks {
		most := map[string]int{"header": 150, "section": 3000, "context": 1}[b.Type]
		if most == 0 || length(b.Text.Text) > most || len(b.Elements) > 10 {
			return "invalid_blocks"
		}
		if n := length(b.Text.Text); b.Type != "context" && n == 0 || b.Type == "context" && len(b.Elements) == 0 {
			return "invalid_blocks"
		}
	}
	return ""
}
