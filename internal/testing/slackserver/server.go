// Package slackserver stands in for Slack's Web API in tests: one workspace, whose
// channels, tokens, messages and documented limits are as Slack's. It knows the two
// methods that bots of ours use, chat.postMessage and chat.update
// (https://docs.slack.dev/reference/methods), and refuses what Slack would.
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

// Token is that of the bot that there is at first, Channel the ID of the channel that
// it is in, whose name is #ops.
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
	messages map[string]*Message
	order    []string
	refused  map[string]string // what a method is refused with
	busy     map[string]int    // for how many seconds a method is to be left alone, once
	hurried  int
}

type channel struct {
	archived bool
	// members are bots.
	members map[string]bool
	// posts and edits are at most so many.
	posts, edits *rate.Limiter
}

// New returns a workspace with a channel and a bot in it, for the time of a test.
func New(t testing.TB) *Workspace {
	t.Helper()
	w := &Workspace{
		bots: map[string]string{Token: "bot"}, channels: map[string]*channel{}, messages: map[string]*Message{},
		refused: map[string]string{}, busy: map[string]int{},
	}
	w.AddChannel(Channel)
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

// URL is what spec.slack.apiURL is to be.
func (w *Workspace) URL() string { return w.server.URL + "/api" }

// AddChannel makes a channel with all bots in it.
func (w *Workspace) AddChannel(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &channel{members: map[string]bool{}, posts: rate.NewLimiter(rate.Inf, 1), edits: rate.NewLimiter(rate.Inf, 1)}
	for _, bot := range w.bots {
		c.members[bot] = true
	}
	w.channels[id] = c
}

// AddBot makes another bot, which is in all channels.
func (w *Workspace) AddBot(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token] = token
	for _, c := range w.channels {
		c.members[token] = true
	}
}

// Revoke makes a token one that was revoked.
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

// Kick takes all bots out of a channel.
func (w *Workspace) Kick(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.channels[id].members)
}

// Invite puts all bots into a channel.
func (w *Workspace) Invite(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, bot := range w.bots {
		w.channels[id].members[bot] = true
	}
}

// Delete deletes a message, as somebody may in Slack.
func (w *Workspace) Delete(ts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.messages, ts)
}

// Refuse has every call of a method refused with an error, or no more if it is empty.
func (w *Workspace) Refuse(method, with string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[method] = with
}

// TooMany has the next call of a method refused, for there were too many, and others
// be welcome after so many seconds.
func (w *Workspace) TooMany(method string, seconds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[method] = seconds
}

// Limit keeps callers to Slack's rates from now on: a message a second in a channel,
// with short bursts, and 50 edits a minute
// (https://docs.slack.dev/apis/web-api/rate-limits).
func (w *Workspace) Limit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.channels {
		c.posts, c.edits = rate.NewLimiter(1, 3), rate.NewLimiter(rate.Every(time.Minute/50), 10)
	}
}

// Hurried is how many calls were refused for there were too many.
func (w *Workspace) Hurried() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hurried
}

// Shown are the messages that there are, in the order of their posting.
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

// do returns what is wrong with a call, if anything, and after how many seconds it may
// be made if it came too soon. w.mu is held.
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
	if m.Channel == name {
		m.Channel = Channel
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
