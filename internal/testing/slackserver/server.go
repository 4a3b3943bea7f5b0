// Package slackserver is a server for tests that stands in for Slack's Web API. It has one
// workspace, with the channels, tokens, messages and documented limits of Slack. It
// implements chat.postMessage and chat.update (https://docs.slack.dev/reference/methods),
// and rejects what Slack rejects.
package slackserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// Token is the token of the first bot. Channel is the ID of its channel, whose name is #ops.
const (
	Token   = "xoxb-secret-token"
	Channel = "C0123"
	name    = "#ops"
)

// Workspace is the server. Its methods are safe for concurrent use.
type Workspace struct {
	server *httptest.Server

	mu       sync.Mutex
	bots     map[string]string // by token
	channels map[string]*channel
	names    map[string]string // IDs by #name
	messages map[string]*Message
	order    []string
	refused  map[string]string // error by method
	busy     map[string]int    // Retry-After of the next call in seconds, by method
	hurried  int
}

type channel struct {
	archived bool
	// members are the bots in the channel.
	members map[string]bool
	// posts and edits limit the rates.
	posts, edits *rate.Limiter
}

// New starts a workspace with a channel and a bot in it. It stops with the test.
func New(t testing.TB) *Workspace {
	t.Helper()
	w := &Workspace{
		bots: map[string]string{Token: "bot"}, channels: map[string]*channel{}, messages: map[string]*Message{},
		names: map[string]string{name: Channel}, refused: map[string]string{}, busy: map[string]int{},
	}
	w.AddChannel(Channel)
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

// URL returns the value for spec.slack.apiURL.
func (w *Workspace) URL() string { return w.server.URL + "/api" }

// AddChannel creates a channel with all bots in it.
func (w *Workspace) AddChannel(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &channel{members: map[string]bool{}, posts: rate.NewLimiter(rate.Inf, 1), edits: rate.NewLimiter(rate.Inf, 1)}
	for _, bot := range w.bots {
		c.members[bot] = true
	}
	w.channels[id] = c
}

// AddNamedChannel is AddChannel for a channel that bots can also post to by its #name.
func (w *Workspace) AddNamedChannel(id, name string) {
	w.AddChannel(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[name] = id
}

// AddBot creates another bot, which is in all channels.
func (w *Workspace) AddBot(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token] = token
	for _, c := range w.channels {
		c.members[token] = true
	}
}

// Revoke revokes a token.
func (w *Workspace) Revoke(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token] = ""
}

// Archive archives a channel, or unarchives it.
func (w *Workspace) Archive(id string, archived bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.channels[id].archived = archived
}

// Kick removes all bots from a channel.
func (w *Workspace) Kick(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.channels[id].members)
}

// Invite adds all bots to a channel.
func (w *Workspace) Invite(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, bot := range w.bots {
		w.channels[id].members[bot] = true
	}
}

// Delete deletes a message, as a user can in Slack.
func (w *Workspace) Delete(ts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.messages, ts)
}

// Refuse answers every call of a method with an error, until it is called with "".
func (w *Workspace) Refuse(method, with string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[method] = with
}

// TooMany answers the next call of a method with 429 and a Retry-After in seconds.
func (w *Workspace) TooMany(method string, seconds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[method] = seconds
}

// Limit enforces Slack's rate limits from now on: one message per second in a channel, with
// short bursts, and 50 edits per minute
// (https://docs.slack.dev/apis/web-api/rate-limits).
func (w *Workspace) Limit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.channels {
		c.posts, c.edits = rate.NewLimiter(1, 3), rate.NewLimiter(rate.Every(time.Minute/50), 10)
	}
}

// Hurried returns the number of calls that were answered with 429.
func (w *Workspace) Hurried() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hurried
}

// Shown returns the messages that exist, in the order of their posts.
func (w *Workspace) Shown() []Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Message
	for _, ts := range w.order {
		if m := w.messages[ts]; m != nil {
			all = append(all, *m)
		}
	}
	return all
}

// ServeHTTP serves the API, below any path.
func (w *Workspace) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := map[string]any{"ok": true}
	method := path.Base(r.URL.Path)
	after, problem := w.busy[method], "ratelimited"
	if after > 0 {
		delete(w.busy, method)
	} else {
		after, problem = w.do(method, r, answer)
	}
	if problem != "" {
		answer = map[string]any{"ok": false, "error": problem}
	}
	rw.Header().Set("Content-Type", "application/json; charset=utf-8")
	if after > 0 {
		w.hurried++
		rw.Header().Set("Retry-After", strconv.Itoa(after))
		rw.WriteHeader(http.StatusTooManyRequests)
	}
	_ = json.NewEncoder(rw).Encode(answer)
}

// do executes a call. It returns Slack's error code, if any, and the seconds to wait if a
// rate limit is exceeded. The caller holds w.mu.
func (w *Workspace) do(method string, r *http.Request, answer map[string]any) (after int, problem string) {
	bot, problem := w.botOf(r)
	if problem == "" {
		problem = w.refused[method]
	}
	if problem != "" {
		return 0, problem
	}
	m, problem := read(r)
	if problem != "" {
		return 0, problem
	}
	m.Bot = bot
	switch method {
	case "chat.postMessage":
		after, problem = w.post(m)
	case "chat.update":
		after, problem = w.update(m)
	default:
		return 0, "unknown_method"
	}
	answer["channel"], answer["ts"] = m.Channel, m.TS
	return after, problem
}

func (w *Workspace) botOf(r *http.Request) (bot, problem string) {
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	bot, known := w.bots[token]
	switch {
	case !given:
		return "", "not_authed"
	case !known:
		return "", "invalid_auth"
	case bot == "":
		return "", "token_revoked"
	}
	return bot, ""
}

func (w *Workspace) post(m *Message) (after int, problem string) {
	if id, ok := w.names[m.Channel]; ok {
		m.Channel = id
	}
	c := w.channels[m.Channel]
	thread := w.messages[m.ThreadTS]
	switch {
	case c == nil:
		return 0, "channel_not_found"
	case !c.members[m.Bot]:
		return 0, "not_in_channel"
	case c.archived:
		return 0, "is_archived"
	case m.TS != "":
		return 0, "invalid_arguments"
	case m.ThreadTS != "" && (thread == nil || thread.Channel != m.Channel || thread.ThreadTS != ""):
		return 0, "thread_not_found"
	case !c.posts.Allow():
		return 1, "ratelimited"
	}
	m.TS = fmt.Sprintf("1700000000.%06d", len(w.order))
	w.order = append(w.order, m.TS)
	w.messages[m.TS] = m
	return 0, ""
}

func (w *Workspace) update(m *Message) (after int, problem string) {
	c, former := w.channels[m.Channel], w.messages[m.TS]
	switch {
	case c == nil:
		return 0, "channel_not_found"
	case c.archived:
		return 0, "is_inactive"
	case former == nil || former.Channel != m.Channel:
		return 0, "message_not_found"
	case former.Bot != m.Bot:
		return 0, "cant_update_message"
	case length(m.Text) > maxEditedText:
		return 0, "msg_too_long"
	case !c.edits.Allow():
		return 1, "ratelimited"
	}
	m.ThreadTS, m.Edits, m.Posted, m.Key = former.ThreadTS, former.Edits+1, former.Posted, former.Key
	w.messages[m.TS] = m
	return 0, ""
}
