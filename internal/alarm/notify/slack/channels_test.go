package slack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/slackserver"
)

// labelled returns the message about a namespace whose label is value.
func labelled(m message.Message, value string) message.Message {
	m.NamespaceLabels = map[string]string{"slack-channel": value}
	return m
}

func fromLabel(allowed ...string) slack.Channels {
	return slack.Channels{Default: slackserver.Channel, From: &v1alpha1.SlackChannelFrom{NamespaceLabel: "slack-channel", Allowed: allowed}}
}

func TestTheChannelIsThatOfTheLabelIfTheReceiverAllowsIt(t *testing.T) {
	for name, tc := range map[string]struct {
		channels slack.Channels
		message  message.Message
		want     string
	}{
		"an allowed name":   {fromLabel("team-*"), labelled(messages.New("", ""), "team-a"), "#team-a"},
		"an allowed ID":     {fromLabel("C0TEAM*"), labelled(messages.New("", ""), "C0TEAMA"), "C0TEAMA"},
		"one of several":    {fromLabel("sre", "team-*"), labelled(messages.New("", ""), "sre"), "#sre"},
		"not allowed":       {fromLabel("team-*"), labelled(messages.New("", ""), "executives"), slackserver.Channel},
		"an ID not allowed": {fromLabel("team-*"), labelled(messages.New("", ""), "C0EXEC"), slackserver.Channel},
		"an empty value":    {fromLabel("*"), labelled(messages.New("", ""), ""), slackserver.Channel},
		"another label":     {fromLabel("*"), message.Message{NamespaceLabels: map[string]string{"team": "a"}}, slackserver.Channel},
		"no label":          {fromLabel("*"), messages.New("", ""), slackserver.Channel},
		"no channelFrom":    {slack.Channels{Default: slackserver.Channel}, labelled(messages.New("", ""), "team-a"), slackserver.Channel},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.channels.Choose(&tc.message); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// newTeams returns a workspace with the channels #team-a and #team-b.
func newTeams(t *testing.T) (*slackserver.Workspace, *thread) {
	t.Helper()
	w, h := newThread(t)
	w.AddNamedChannel("C0TEAMA", "#team-a")
	w.AddNamedChannel("C0TEAMB", "#team-b")
	h.allow(w, "team-*")
	return w, h
}

// allow replaces the bot, as after a change of the receiver or a restart.
func (h *thread) allow(w *slackserver.Workspace, allowed ...string) {
	h.t.Helper()
	h.bot = newBot(h.t, slack.BotConfig{API: w.URL(), Token: slackserver.Token, Channels: fromLabel(allowed...), Clock: h.clock})
}

// channelsOf returns the channels of all messages, in order.
func channelsOf(w *slackserver.Workspace) string {
	var all []string
	for _, m := range w.Shown() {
		all = append(all, m.Channel)
	}
	return strings.Join(all, " ")
}

func TestAMessageIsPostedInTheChannelOfItsLabel(t *testing.T) {
	w, h := newTeams(t)
	for _, value := range []string{"team-b", "executives", "team-a"} {
		if err := h.bot.Send(t.Context(), value, notifiers.Render(t, h.bot, labelled(messages.New("title", "text"), value))); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := channelsOf(w), "C0TEAMB "+slackserver.Channel+" C0TEAMA"; got != want {
		t.Errorf("posted in %s, want %s", got, want)
	}
}

func TestAThreadIsResolvedWhereItWasOpened(t *testing.T) {
	for name, change := range map[string]func(w *slackserver.Workspace, h *thread){
		"the label changes":                         func(*slackserver.Workspace, *thread) {},
		"the label changes, and the bot is another": func(w *slackserver.Workspace, h *thread) { h.allow(w, "team-a", "team-b") },
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newTeams(t)
			h.send("a", labelled(messages.Grouped(4, false), "team-a"))
			change(w, h)
			h.wait(time.Minute)
			h.send("b", labelled(messages.Grouped(8, false), "team-b"))
			h.wait(time.Minute)
			h.send("c", messages.Grouped(9, true)) // the namespace has no label any more
			shown := w.Shown()
			if got := channelsOf(w); got != strings.Repeat(" C0TEAMA", len(shown))[1:] || shown[0].Edits != 2 || !strings.HasPrefix(shown[0].Text, "✅ ") {
				t.Errorf("messages in %s, the first edited %d times: %s", got, shown[0].Edits, shown[0].Text)
			}
			if len(h.lost) > 0 {
				t.Errorf("reported lost threads: %q", h.lost)
			}
		})
	}
}

func TestAThreadLeavesAChannelThatIsNoLongerAllowed(t *testing.T) {
	w, h := newTeams(t)
	h.send("a", labelled(messages.Grouped(4, false), "team-a"))
	h.allow(w, "team-b")
	h.send("b", labelled(messages.Grouped(8, false), "team-a"))
	if got, want := channelsOf(w), "C0TEAMA "+slackserver.Channel; got != want {
		t.Errorf("messages in %s, want %s", got, want)
	}
}

// A message that was prepared before a restart has the channel of that time.
func TestAPreparedMessageGoesOnlyToAChannelThatIsAllowedNow(t *testing.T) {
	w, h := newTeams(t)
	body := notifiers.Render(t, h.bot, labelled(messages.New("title", "text"), "team-a"))
	h.allow(w, "team-b")
	if err := h.bot.Send(t.Context(), "key", body); err != nil {
		t.Fatal(err)
	}
	if got := channelsOf(w); got != slackserver.Channel {
		t.Errorf("posted in %s", got)
	}
}

// Everyone who can set the label could otherwise stop the receiver.
func TestAMessageForAChannelThatSlackRefusesGoesToTheDefaultChannelAndSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*slackserver.Workspace)
		value string
		want  string
	}{
		"no such channel": {func(*slackserver.Workspace) {}, "team-z", "For #team-z, but Slack does not show this channel to the bot"},
		"not a member":    {func(w *slackserver.Workspace) { w.Kick("C0TEAMA") }, "team-a", "For #team-a, but the bot is not in the channel"},
		"archived":        {func(w *slackserver.Workspace) { w.Archive("C0TEAMA", true) }, "team-a", "For #team-a, but the channel is archived"},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newTeams(t)
			tc.spoil(w)
			if err := h.bot.Send(t.Context(), "alone", notifiers.Render(t, h.bot, labelled(messages.New("title", "text"), tc.value))); err != nil {
				t.Fatal(err)
			}
			h.send("a", labelled(messages.Grouped(4, false), tc.value))
			h.send("b", labelled(messages.Grouped(8, false), tc.value)) // it continues the thread
			shown := w.Shown()
			if len(shown) != 2 || shown[1].Edits != 1 {
				t.Fatalf("%d messages: %+v", len(shown), shown)
			}
			for _, m := range shown {
				if m.Channel != slackserver.Channel {
					t.Errorf("a message in %s", m.Channel)
				}
			}
			if text := shown[0].Reads(); !strings.Contains(text, tc.want) {
				t.Errorf("the message does not say %q: %s", tc.want, text)
			}
		})
	}
}

// Members of the channel could otherwise stop the receiver for all.
func TestAThreadLeavesAChannelThatSlackRefuses(t *testing.T) {
	w, h := newTeams(t)
	h.send("a", labelled(messages.Grouped(4, false), "team-a"))
	w.Kick("C0TEAMA")
	h.wait(time.Minute) // so that a reply is due
	h.send("b", labelled(messages.Grouped(8, false), "team-a"))
	if got, want := channelsOf(w), "C0TEAMA "+slackserver.Channel; got != want {
		t.Errorf("messages in %s, want %s", got, want)
	}
	if len(h.lost) != 1 || !strings.Contains(h.lost[0], "Slack refuses the channel") {
		t.Errorf("reported %q", h.lost)
	}
	h.wait(time.Minute)
	h.send("c", labelled(messages.Grouped(9, true), "team-a"))
	if shown := w.Shown(); shown[1].Edits != 1 || !strings.HasPrefix(shown[1].Text, "✅ ") {
		t.Errorf("the new thread is not resolved: %+v", shown[1])
	}
}

func TestARefusedDefaultChannelIsAFailure(t *testing.T) {
	w, h := newTeams(t)
	w.Kick(slackserver.Channel)
	if err := h.bot.Send(t.Context(), "key", notifiers.Render(t, h.bot, labelled(messages.New("title", "text"), "team-z"))); err == nil {
		t.Error("no channel accepted the message, and it counts as sent")
	}
}
