package slack_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slacktest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/slackserver"
)

// asForm returns a proxy that turns JSON into forms. Slack accepts both, but slacktest
// only forms, and it unescapes their blocks twice.
func asForm(t *testing.T, to *slacktest.Server) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var arguments map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&arguments); err != nil {
			t.Error(err)
		}
		form := url.Values{}
		for name, value := range arguments {
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = url.QueryEscape(string(value))
			}
			form.Set(name, text)
		}
		answer, err := http.PostForm(strings.TrimSuffix(to.GetAPIURL(), "/")+r.URL.Path, form)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(s.Close)
	return s
}

// slacktest sends accepted messages to its listeners, as slack-go parses them.
func TestSlackGoReadsTheBotsMessages(t *testing.T) {
	server := slacktest.NewTestServer()
	server.Start()
	t.Cleanup(server.Stop)
	listener := server.GetTestRTMInstance()
	go listener.ManageConnection()
	t.Cleanup(func() { _ = listener.Disconnect() })
	bot := newBot(t, slack.BotConfig{
		API: asForm(t, server).URL, Token: slackserver.Token, Channels: slack.Channels{Default: slackserver.Channel},
		Clock: clocktesting.NewFakePassiveClock(messages.Noon),
	})
	for name, m := range messages.Kinds() {
		t.Run(name, func(t *testing.T) {
			body := notifiers.Render(t, bot, m)
			if _, err := bot.SendInGroup(t.Context(), name, body, ""); err != nil {
				t.Fatal(err)
			}
			var sent struct {
				Root struct {
					Text   string
					Blocks slackgo.Blocks
				}
			}
			if err := json.Unmarshal(body, &sent); err != nil {
				t.Fatal(err)
			}
			got := awaitMessage(t, listener)
			if diff := cmp.Diff(sent.Root.Blocks, got.Blocks); diff != "" || got.Text != sent.Root.Text || got.Channel != slackserver.Channel {
				t.Errorf("%q in %s: %s", got.Text, got.Channel, diff)
			}
		})
	}
}

func awaitMessage(t *testing.T, listener *slackgo.RTM) *slackgo.MessageEvent {
	t.Helper()
	for over := time.After(time.Minute); ; {
		select {
		case event := <-listener.IncomingEvents:
			if m, ok := event.Data.(*slackgo.MessageEvent); ok {
				return m
			}
		case <-over:
			t.Fatal("slacktest sent no message")
		}
	}
}

// slacktest does not implement chat.update and answers 404.
func TestAServerWithoutChatUpdateParksTheReceiver(t *testing.T) {
	server := slacktest.NewTestServer()
	server.Start()
	t.Cleanup(server.Stop)
	h := &thread{t: t, clock: clocktesting.NewFakePassiveClock(messages.Noon)}
	h.bot = newBot(t, slack.BotConfig{API: asForm(t, server).URL, Token: slackserver.Token, Channels: slack.Channels{Default: slackserver.Channel}, Clock: h.clock})
	h.send("a", messages.Grouped(4, false))
	err := h.try("b", messages.Grouped(8, false))
	if e, ok := errors.AsType[*notify.SendError](err); !ok || e.Class != notify.Stop {
		t.Errorf("got %v", err)
	}
}
