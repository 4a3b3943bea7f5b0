package slack_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
	"github.com/bongsu-io/bongsu/internal/testing/slackserver"
)

func newBot(t testing.TB, c slack.BotConfig) *slack.Bot {
	t.Helper()
	b, err := slack.NewBot(notifiers.Client(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// thread sends messages of one group, as a Dispatcher does.
type thread struct {
	t         *testing.T
	bot       *slack.Bot
	clock     *clocktesting.FakePassiveClock
	reference string
	// lost holds all values of Threaded.Lost.
	lost []string
}

func newThread(t *testing.T) (*slackserver.Workspace, *thread) {
	t.Helper()
	w := slackserver.New(t)
	h := &thread{t: t, clock: clocktesting.NewFakePassiveClock(messages.Noon)}
	h.configure(w, slackserver.Token, slackserver.Channel)
	return w, h
}

// configure replaces the bot.
func (h *thread) configure(w *slackserver.Workspace, token, channel string) {
	h.t.Helper()
	h.bot = newBot(h.t, slack.BotConfig{API: w.URL(), Token: token + "\n", Channels: slack.Channels{Default: channel}, Clock: h.clock})
}

func (h *thread) try(key string, m message.Message) error {
	h.t.Helper()
	sent, err := h.bot.SendInGroup(h.t.Context(), key, notifiers.Render(h.t, h.bot, m), h.reference)
	if err != nil {
		return err
	}
	if len(sent.Reference) > notify.MaxReference || strings.Contains(sent.Reference, "secret") {
		h.t.Errorf("the reference is %s", sent.Reference)
	}
	h.reference = sent.Reference
	if sent.Lost != "" {
		h.lost = append(h.lost, sent.Lost)
	}
	return nil
}

func (h *thread) send(key string, m message.Message) {
	h.t.Helper()
	if err := h.try(key, m); err != nil {
		h.t.Fatal(err)
	}
}

// wait advances the clock.
func (h *thread) wait(d time.Duration) { h.clock.SetTime(h.clock.Now().Add(d)) }

func TestAGroupIsOneMessageThatIsEditedWithRepliesInItsThread(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	h.wait(time.Minute)
	h.send("b", messages.Grouped(8, false))
	h.wait(time.Minute)
	h.send("c", messages.Grouped(9, true))

	shown := w.Shown()
	if len(shown) != 3 || shown[0].Edits != 2 || shown[0].ThreadTS != "" {
		t.Fatalf("%d messages, the first edited %d times", len(shown), shown[0].Edits)
	}
	if root := shown[0].Reads(); !strings.Contains(root, "9 times since") || !strings.HasPrefix(shown[0].Text, "✅ ") {
		t.Errorf("the group's message is %s", root)
	}
	for _, reply := range shown[1:] {
		if reply.ThreadTS != shown[0].TS || reply.Edits != 0 {
			t.Errorf("not a reply: %+v", reply)
		}
	}
	if len(h.lost) > 0 {
		t.Errorf("reported lost threads: %q", h.lost)
	}
}

func TestAThreadGetsRepliesAfterTheClockWasSetBack(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	h.wait(-24 * time.Hour)
	h.send("b", messages.Grouped(8, false))
	if replies := len(w.Shown()) - 1; replies != 1 {
		t.Errorf("%d replies, want one", replies)
	}
}

// acknowledged is the notice of an acknowledgement of the group of messages.Grouped.
func acknowledged(comment string) message.Message {
	m := messages.Grouped(4, false)
	m.Title, m.Text, m.Events = "Acknowledged by ana", comment, nil
	m.Acknowledged = &message.Acknowledgement{By: "ana <!channel>", At: messages.Noon, Comment: comment}
	return m
}

func TestAnAcknowledgementIsAReplyThatSaysWhoAndWhen(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	h.wait(time.Second) // it does not wait for the interval of replies
	h.send("b", acknowledged("the disk is <replaced>"))
	h.send("b", acknowledged("the disk is <replaced>")) // a retry
	h.wait(time.Minute)
	h.send("c", messages.Grouped(9, true))
	shown := w.Shown()
	if len(shown) != 3 || shown[0].Edits != 1 || shown[1].ThreadTS != shown[0].TS {
		t.Fatalf("%d messages: %+v", len(shown), shown)
	}
	for _, want := range []string{"Acknowledged by ana &lt;!channel&gt;", "the disk is &lt;replaced&gt;", "<!date^"} {
		if got := shown[1].Reads(); !strings.Contains(got, want) {
			t.Errorf("the reply is %s, want it to contain %s", got, want)
		}
	}
}

func TestAnAcknowledgementWithoutAThreadIsNotSent(t *testing.T) {
	w, h := newThread(t)
	h.send("a", acknowledged(""))
	if shown := w.Shown(); len(shown) > 0 {
		t.Errorf("%+v", shown)
	}
}

func TestAThreadGetsAtMostOneReplyIn30Seconds(t *testing.T) {
	w, h := newThread(t)
	for i := range 60 {
		h.send(time.Duration(i).String(), messages.Grouped(int64(i+4), false))
		h.wait(2 * time.Second)
	}
	shown := w.Shown()
	if replies := len(shown) - 1; replies != 3 || shown[0].Edits != 59 {
		t.Errorf("%d replies in 118 s, %d edits", replies, shown[0].Edits)
	}
	if root := shown[0].Reads(); !strings.Contains(root, "63 times since") {
		t.Errorf("the count has not grown: %s", root)
	}
}

func TestARetriedMessageRepliesOnce(t *testing.T) {
	w, h := newThread(t)
	for _, key := range []string{"a", "a", "b", "b"} {
		h.send(key, messages.Grouped(map[string]int64{"a": 4, "b": 8}[key], false))
		h.wait(time.Hour)
	}
	if got := len(w.Shown()); got != 2 {
		t.Errorf("%d messages", got)
	}
}

// The retry edits the message once more, because the first attempt may not have done it.
func TestARetryAfterAFailedReplyCompletesTheMessage(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	h.wait(time.Minute)
	w.TooMany("chat.postMessage", 7)
	err := h.try("b", messages.Grouped(8, false))
	if e, ok := errors.AsType[*notify.SendError](err); !ok || e.Class != notify.Retry || e.RetryAfter != 7*time.Second {
		t.Fatalf("got %v", err)
	}
	h.send("b", messages.Grouped(8, false))
	shown := w.Shown()
	if len(shown) != 2 || shown[0].Edits != 2 || shown[1].ThreadTS != shown[0].TS {
		t.Errorf("%d messages, %d edits", len(shown), shown[0].Edits)
	}
}

// Each case changes something about a group's message before the next message.
func TestALostThreadStartsAgainAndIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		lose func(*slackserver.Workspace, *thread)
		want string
	}{
		"the message was deleted": {
			func(w *slackserver.Workspace, _ *thread) { w.Delete(w.Shown()[0].TS) }, "was deleted in Slack",
		},
		"another bot posts": {
			func(w *slackserver.Workspace, h *thread) {
				w.AddBot("xoxb-other")
				h.configure(w, "xoxb-other", "#ops")
			}, "belongs to another bot",
		},
		"it is too old to be edited": {
			func(w *slackserver.Workspace, _ *thread) { w.Refuse("chat.update", "edit_window_closed") }, "limits how long messages can be edited",
		},
		"another channel has its name": {
			func(w *slackserver.Workspace, h *thread) {
				w.AddChannel("C9")
				h.reference = strings.Replace(h.reference, slackserver.Channel, "C9", 1)
				w.Archive("C9", true)
			}, "deleted or archived",
		},
		"its channel was deleted": {
			func(_ *slackserver.Workspace, h *thread) {
				h.reference = strings.Replace(h.reference, slackserver.Channel, "C9", 1)
			}, "deleted or archived",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newThread(t)
			h.configure(w, slackserver.Token, "#ops")
			h.send("a", messages.Grouped(4, false))
			tc.lose(w, h)
			before := len(w.Shown())
			h.wait(time.Minute)
			h.send("b", messages.Grouped(8, false))
			w.Refuse("chat.update", "")
			h.send("c", messages.Grouped(9, true))
			shown := w.Shown()
			if len(shown) != before+1 {
				t.Fatalf("%d messages, were %d", len(shown), before)
			}
			if last := shown[before]; last.ThreadTS != "" || last.Edits != 1 || last.Channel != slackserver.Channel {
				t.Errorf("the group does not continue in a new message: %+v", last)
			}
			if len(h.lost) != 1 || !strings.Contains(h.lost[0], tc.want) {
				t.Errorf("reported %q, want one text with %q", h.lost, tc.want)
			}
		})
	}
}

func TestAReplyThatSlackRefusesIsLeftOut(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	h.wait(time.Minute)
	w.Refuse("chat.postMessage", "restricted_action_non_threadable_channel")
	h.send("b", messages.Grouped(8, false))
	if shown := w.Shown(); len(shown) != 1 || shown[0].Edits != 1 {
		t.Errorf("%d messages", len(shown))
	}
}

func TestAnUnknownReferenceStartsANewThread(t *testing.T) {
	w, h := newThread(t)
	for _, h.reference = range []string{"", "no JSON", `{"receiver":"C9","channel":"C9","ts":"1"}`, `{"receiver":"C0123"}`} {
		h.send("a", messages.Grouped(8, false))
	}
	if got := len(w.Shown()); got != 4 || len(h.lost) > 0 {
		t.Errorf("%d messages, reported %q", got, h.lost)
	}
}

func TestAMessageInAFormerChannelIsNotEdited(t *testing.T) {
	w, h := newThread(t)
	w.AddChannel("C9")
	h.send("a", messages.Grouped(4, false))
	h.configure(w, slackserver.Token, "C9")
	h.wait(time.Minute)
	h.send("b", messages.Grouped(8, false))
	shown := w.Shown()
	if len(shown) != 2 || shown[0].Edits != 0 || shown[1].Channel != "C9" || len(h.lost) > 0 {
		t.Errorf("%+v, reported %q", shown, h.lost)
	}
}

func TestAGroupThatStartsAgainPostsANewMessage(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	h.send("b", messages.Grouped(9, true))
	again := messages.Grouped(4, false)
	again.Group.Since = messages.Noon
	h.send("c", again)
	again.Group.Total++
	h.send("d", again)
	shown := w.Shown()
	if len(shown) != 2 || !strings.HasPrefix(shown[0].Text, "✅ ") || shown[1].ThreadTS != "" || shown[1].Edits != 1 || len(h.lost) > 0 {
		t.Errorf("%+v, reported %q", shown, h.lost)
	}
}

func TestBotErrorsSayWhatToDo(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	body := notifiers.Render(t, h.bot, messages.Grouped(8, false))
	for refusal, tc := range map[string]struct {
		class notify.Class
		want  string
	}{
		"token_revoked":     {notify.Stop, "the bot's token is no longer valid"},
		"account_inactive":  {notify.Stop, "put a new one into the Secret"},
		"missing_scope":     {notify.Stop, "chat:write"},
		"not_in_channel":    {notify.Stop, "invite it"},
		"channel_not_found": {notify.Stop, "spec.slack.channel"},
		"is_archived":       {notify.Stop, "the channel is archived"},
		"invalid_blocks":    {notify.Reject, "it is dropped"},
		"msg_too_long":      {notify.Reject, "it is dropped"},
		"message_not_found": {notify.Stop, "unknown reason"}, // no documented error of chat.postMessage
		"ratelimited":       {notify.Retry, "fewer messages"},
		"update_failed":     {notify.Retry, notify.Retried},
		"xoxb-secret":       {notify.Stop, "unknown reason"},
	} {
		w.Refuse("chat.postMessage", refusal)
		w.Refuse("chat.update", refusal)
		_, inGroup := h.bot.SendInGroup(t.Context(), "b", body, h.reference)
		for _, err := range []error{h.bot.Send(t.Context(), "b", body), inGroup} {
			e, ok := errors.AsType[*notify.SendError](err)
			if !ok || e.Class != tc.class || !strings.Contains(e.Text, tc.want) || strings.Contains(e.Text, "secret") {
				t.Errorf("%s: got %+v, want a %s with the text %q", refusal, e, tc.class, tc.want)
			}
		}
	}
}

func TestEditsHonourSlacksRetryAfter(t *testing.T) {
	w, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	w.TooMany("chat.update", 30)
	err := h.try("b", messages.Grouped(8, false))
	if e, ok := errors.AsType[*notify.SendError](err); !ok || e.Class != notify.Retry || e.RetryAfter != 30*time.Second {
		t.Errorf("got %v", err)
	}
}

func TestBotMessagesMatchTheGoldenFilesAndAreAccepted(t *testing.T) {
	w, h := newThread(t)
	all := messages.Kinds()
	for name, m := range all {
		body := notifiers.Render(t, h.bot, m)
		messages.Golden(t, "bot-"+name, body)
		if err := h.bot.Send(t.Context(), name, body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.send("first", messages.Grouped(4, false))
	for i, unit := range messages.Units() {
		h.wait(time.Hour)
		long := messages.Long(unit)
		long.Group = messages.Grouped(8, false).Group
		h.send(time.Duration(i).String(), long)
	}
	if got, want := len(w.Shown()), len(all)+1+len(messages.Units()); got != want {
		t.Errorf("%d messages, want %d", got, want)
	}
}

func TestNewBotDoesNotRevealTheToken(t *testing.T) {
	for _, token := range []string{"", "secret", "xoxb-secret\r\nX: 1"} {
		if _, err := slack.NewBot(nil, slack.BotConfig{API: slack.DefaultAPI, Token: token}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", token, err)
		}
	}
	if key := newBot(t, slack.BotConfig{API: slack.DefaultAPI, Token: slackserver.Token}).Limit().Key; strings.Contains(key, "secret") {
		t.Errorf("the limit's key is %s", key)
	}
}

// Slack repeats the message in its answer. In JSON, a character can have twelve bytes, and the name
// of an emoji more. The operator reads 64 KiB, and a connection can break.
func TestAMessageWhoseAnswerHasNoEndIsAccepted(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for answer, class := range map[string]string{
		`{"ok":true,"channel":"C1","ts":"1.2","message":{"text":"` + long + `"}}`:                "",
		`{"ok":true,"channel":"C1","ts":"1.2","text":"` + long + `","message":{}}`:               "",
		`{"ok":true,"message":{"text":"` + long + `"},"channel":"C1","ts":"1.2"}`:                "",
		`{"ok":false,"error":"token_revoked","response_metadata":{"messages":["` + long + `"]}}`: "stop",
		`{"message":{"text":"` + long + `"},"ok":true,"channel":"C1","ts":"1.2"}`:                "retry",
		`{"ok":true,"channel":"C1","ts":"1.2"`:                                                   "",
		`{"ok":tr`:                                                                               "retry",
		`null`:                                                                                   "retry",
		`[true]`:                                                                                 "retry",
		`{}`:                                                                                     "retry",
		`{"ok":"x"}`:                                                                             "retry",
	} {
		server := sink.New(t)
		server.Always(sink.Status(http.StatusOK, answer))
		bot := newBot(t, slack.BotConfig{API: server.URL(), Token: slackserver.Token, Channels: slack.Channels{Default: "C1"}, Clock: clocktesting.NewFakePassiveClock(messages.Noon)})
		_, err := bot.SendInGroup(t.Context(), "key", notifiers.Render(t, bot, messages.Grouped(4, false)), "")
		got := ""
		if e, ok := errors.AsType[*notify.SendError](err); ok {
			got = e.Class.String()
		}
		if got != class {
			t.Errorf("%.60s: got %q, want %q", answer, got, class)
		}
	}
}
