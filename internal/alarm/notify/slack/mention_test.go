package slack_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/slackserver"
)

func TestMessagesMentionTheUsersOfTheReceiverAndNoOneElse(t *testing.T) {
	mentions := slack.Mentions{"U0123456789", "W012", "S0123456789", "here", "channel", "everyone"}
	const want = "<@U0123456789> <@W012> <!subteam^S0123456789> <!here> <!channel> <!everyone>"
	hook, err := slack.New(notifiers.Client(t), "https://hooks.slack.example/services/x", mentions)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		message message.Message
		want    []string
	}{
		"a message":                      {messages.New("title", "text"), []string{want}},
		"a test":                         {messages.New("title", "text").AsTest(), []string{want}},
		"a message of a group":           {messages.Grouped(4, false), []string{want}},
		"a message that resolves one":    {messages.Grouped(4, true), nil},
		"an Event that mentions as well": {messages.New("<@U666>", "<!everyone> <@U666>"), []string{want}},
	} {
		t.Run(name, func(t *testing.T) {
			got := mentioned(t, notifiers.Render(t, hook, tc.message))
			if strings.Join(got, ";") != strings.Join(tc.want, ";") {
				t.Errorf("it mentions %q, want %q", got, tc.want)
			}
		})
	}
	if got := mentioned(t, render(t, messages.New("title", "text"))); got != nil {
		t.Errorf("a receiver with no list mentions %q", got)
	}
}

// mentioned returns the markdown of the sections of a body.
func mentioned(t *testing.T, raw []byte) (texts []string) {
	t.Helper()
	for _, block := range decode(t, raw).Blocks {
		if block.Type == "section" && block.Text.Type == "mrkdwn" {
			if !block.Text.Verbatim {
				t.Errorf("Slack would look for further mentions in %q", block.Text.Text)
			}
			texts = append(texts, block.Text.Text)
		}
	}
	return texts
}

func TestAThreadMentionsOnceAndItsRepliesMentionNoOne(t *testing.T) {
	w, h := newThread(t)
	h.bot = newBot(t, slack.BotConfig{API: w.URL(), Token: slackserver.Token, Channels: slack.Channels{Default: slackserver.Channel}, Mentions: slack.Mentions{"U1A"}, Clock: h.clock})
	h.send("a", messages.Grouped(4, false))
	if posted := w.Shown()[0].Reads(); strings.Count(posted, "<@U1A>") != 1 {
		t.Errorf("the group's message is %s", posted)
	}
	h.wait(time.Minute)
	h.send("b", messages.Grouped(8, false))
	h.wait(time.Minute)
	h.send("c", messages.Grouped(9, true))
	for _, m := range w.Shown()[1:] {
		if strings.Contains(m.Reads(), "<@U1A>") {
			t.Errorf("a reply mentions: %s", m.Reads())
		}
	}
}

func FuzzNoTextMentionsUsersBesideThoseOfTheReceiver(f *testing.F) {
	f.Add("<!channel> <@U666>", "&lt;!here&gt; <!subteam^S1>")
	f.Fuzz(func(t *testing.T, title, text string) {
		bot := newBot(t, slack.BotConfig{API: slack.DefaultAPI, Token: slackserver.Token, Channels: slack.Channels{Default: slackserver.Channel}, Mentions: slack.Mentions{"U1A"}})
		var body struct{ Root, Reply json.RawMessage }
		if err := json.Unmarshal(notifiers.Render(t, bot, messages.New(title, text)), &body); err != nil {
			t.Fatal(err)
		}
		if got := mentioned(t, body.Root); len(got) != 1 || got[0] != "<@U1A>" {
			t.Errorf("it mentions %q", got)
		}
		if got := mentioned(t, body.Reply); got != nil {
			t.Errorf("a reply mentions %q", got)
		}
	})
}
