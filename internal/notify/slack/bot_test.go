package slack_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/notify"
	"github.com/bongsu-io/bongsu/internal/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
)

func newBot(t testing.TB, w *workspace, clock *clocktesting.FakePassiveClock) *slack.Bot {
	t.Helper()
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test"})
	t.Cleanup(client.Close)
	b, err := slack.NewBot(client, slack.BotConfig{API: w.server.URL, Token: botToken + "\n", Channel: "C0123", Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// thread sends messages of one group, as the ledger would.
type thread struct {
	t         *testing.T
	bot       *slack.Bot
	reference string
}

func (h *thread) send(key string, m alarm.Message) {
	h.t.Helper()
	body, err := h.bot.Render(m)
	if err != nil {
		h.t.Fatal(err)
	}
	reference, err := h.bot.SendInGroup(h.t.Context(), key, body, h.reference)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(reference) > notify.MaxReference || strings.Contains(reference, "secret") {
		h.t.Errorf("the reference is %s", reference)
	}
	h.reference = reference
}

func newThread(t *testing.T) (*workspace, *clocktesting.FakePassiveClock, *thread) {
	t.Helper()
	w, clock := newWorkspace(t), clocktesting.NewFakePassiveClock(messages.Noon)
	return w, clock, &thread{t: t, bot: newBot(t, w, clock)}
}

// raw is a message as it is shown.
func raw(t *testing.T, m *slackMessage) string {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAGroupIsOneMessageThatIsEditedWithRepliesInItsThread(t *testing.T) {
	w, clock, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	clock.SetTime(messages.Noon.Add(time.Minute))
	h.send("b", messages.Grouped(8, false))
	clock.SetTime(messages.Noon.Add(2 * time.Minute))
	h.send("c", messages.Grouped(9, true))

	shown := w.shown()
	if len(shown) != 3 || shown[0].edits != 2 || shown[0].ThreadTS != "" {
		t.Fatalf("%d messages, the first edited %d times", len(shown), shown[0].edits)
	}
	if root := raw(t, shown[0]); !strings.Contains(root, "9 times so far") || !strings.HasPrefix(shown[0].Text, "✅ ") {
		t.Errorf("the group's message is %s", root)
	}
	for _, reply := range shown[1:] {
		if reply.ThreadTS != shown[0].TS || reply.edits != 0 {
			t.Errorf("not a reply: %+v", reply)
		}
	}
}

func TestThereIsOneReplyInThirtySeconds(t *testing.T) {
	w, clock, h := newThread(t)
	for i := range 60 {
		clock.SetTime(messages.Noon.Add(time.Duration(i) * 2 * time.Second))
		h.send(time.Duration(i).String(), messages.Grouped(int64(i+4), false))
	}
	shown := w.shown()
	if replies := len(shown) - 1; replies != 3 || shown[0].edits != 59 {
		t.Errorf("%d replies in 118 s, %d edits", replies, shown[0].edits)
	}
	if root := raw(t, shown[0]); !strings.Contains(root, "63 times so far") {
		t.Errorf("the count has not grown: %s", root)
	}
}

func TestAMessageThatIsRepeatedRepliesOnce(t *testing.T) {
	w, clock, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	clock.SetTime(messages.Noon.Add(time.Hour))
	for range 2 {
		h.send("b", messages.Grouped(8, false))
		clock.SetTime(clock.Now().Add(time.Hour))
	}
	if got := len(w.shown()); got != 2 {
		t.Errorf("%d messages", got)
	}
}

func TestADeletedMessageIsPostedAnew(t *testing.T) {
	w, clock, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	w.remove(w.shown()[0].TS)
	clock.SetTime(messages.Noon.Add(time.Minute))
	h.send("b", messages.Grouped(8, false))
	h.send("c", messages.Grouped(9, true))
	shown := w.shown()
	if len(shown) != 1 || shown[0].ThreadTS != "" || shown[0].edits != 1 {
		t.Fatalf("%d messages", len(shown))
	}
}

func TestAReferenceOfAnotherSinkBeginsAnew(t *testing.T) {
	w, _, h := newThread(t)
	for _, h.reference = range []string{"", "no JSON", `{"receiver":"C9","channel":"C9","ts":"1"}`, `{"receiver":"C0123"}`} {
		h.send("a", messages.Grouped(8, false))
	}
	if got := len(w.shown()); got != 4 {
		t.Errorf("%d messages", got)
	}
}

func TestABotSaysWhatToDo(t *testing.T) {
	w, _, h := newThread(t)
	h.send("a", messages.Grouped(4, false))
	body, err := h.bot.Render(messages.Grouped(8, false))
	if err != nil {
		t.Fatal(err)
	}
	for refusal, tc := range map[string]struct {
		class notify.Class
		want  string
	}{
		"token_revoked":     {notify.Park, "the bot's token is not valid any more"},
		"missing_scope":     {notify.Park, "chat:write"},
		"not_in_channel":    {notify.Park, "invite it"},
		"channel_not_found": {notify.Park, "spec.slack.channel"},
		"is_archived":       {notify.Park, "the channel is archived"},
		"invalid_blocks":    {notify.Reject, "which is dropped"},
		"ratelimited":       {notify.Retry, "fewer messages"},
		"xoxb-secret":       {notify.Park, "not known here"},
	} {
		w.refuse(refusal)
		_, inGroup := h.bot.SendInGroup(t.Context(), "b", body, h.reference)
		for _, err := range []error{h.bot.Send(t.Context(), "b", body), inGroup} {
			e, ok := errors.AsType[*notify.SendError](err)
			if !ok || e.Class != tc.class || !strings.Contains(e.Text, tc.want) || strings.Contains(e.Text, "secret") {
				t.Errorf("%s: got %+v, want a %s that says %q", refusal, e, tc.class, tc.want)
			}
		}
	}
}

func TestABotsMessagesLookAsTheyShouldAndAreTaken(t *testing.T) {
	w, clock, h := newThread(t)
	all := messages.Kinds()
	for name, m := range all {
		body, err := h.bot.Render(m)
		if err != nil {
			t.Fatal(err)
		}
		messages.Golden(t, "bot-"+name, body)
		if err := h.bot.Send(t.Context(), name, body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.send("first", messages.Grouped(4, false))
	for i, unit := range messages.Units() {
		clock.SetTime(clock.Now().Add(time.Hour))
		long := messages.Long(unit)
		long.Group = messages.Grouped(8, false).Group
		h.send(time.Duration(i).String(), long)
	}
	if got, want := len(w.shown()), len(all)+1+len(messages.Units()); got != want {
		t.Errorf("%d messages, want %d", got, want)
	}
}

func TestNewBotDoesNotTellTheToken(t *testing.T) {
	for _, token := range []string{"", "secret", "xoxb-secret\r\nX: 1"} {
		if _, err := slack.NewBot(nil, slack.BotConfig{API: slack.DefaultAPI, Token: token}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", token, err)
		}
	}
	w, clock, _ := newThread(t)
	if key := newBot(t, w, clock).Limit().Key; strings.Contains(key, "secret") {
		t.Errorf("the limit's key is %s", key)
	}
}
