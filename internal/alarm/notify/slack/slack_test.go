package slack_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func TestSendSaysWhatToDoAboutSlacksErrors(t *testing.T) {
	server := sink.New(t)
	n := newNotifier(t, server.URL())
	for answer, tc := range map[string]struct {
		code  int
		class notify.Class
		want  string
	}{
		"invalid_payload":     {400, notify.Reject, "400 Bad Request: Slack does not understand"},
		"action_prohibited":   {403, notify.Park, "403 Forbidden: the workspace's administrator"},
		"invalid_token":       {403, notify.Park, "put the one that Slack shows"},
		"no_service":          {404, notify.Park, "404 Not Found: the webhook was removed"},
		"channel_not_found":   {404, notify.Park, "the channel does not exist"},
		"channel_is_archived": {410, notify.Park, "410 Gone: the channel is archived"},
		"rollup_error":        {500, notify.Retry, "500 Internal Server Error: Slack has a fault"},
		"xoxb-secret-token":   {403, notify.Park, "403 Forbidden: it refuses the credentials"},
		"no_service\n":        {404, notify.Park, "the webhook was removed"},
	} {
		t.Run(answer, func(t *testing.T) {
			server.Script(sink.Status(tc.code, answer))
			err := n.Send(t.Context(), "key", []byte("{}"))
			sendError, ok := errors.AsType[*notify.SendError](err)
			if !ok || sendError.Class != tc.class || !strings.Contains(sendError.Text, tc.want) {
				t.Errorf("got %v, want a %s that says %q", err, tc.class, tc.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells what was answered: %s", err)
			}
		})
	}
	if err := n.Send(t.Context(), "key", []byte("{}")); err != nil {
		t.Errorf("200 ok: %v", err)
	}
}

func TestReceiversOfOneWebhookShareALimitOfOneMessageASecond(t *testing.T) {
	a := newNotifier(t, "https://hooks.slack.example/services/a").Limit()
	again := newNotifier(t, " https://hooks.slack.example/services/a\n").Limit()
	b := newNotifier(t, "https://hooks.slack.example/services/b").Limit()
	if a != again || a == b || a.Every != time.Second {
		t.Errorf("limits are %+v, %+v, %+v", a, again, b)
	}
	if strings.Contains(a.Key, "services") {
		t.Errorf("the key tells the URL: %s", a.Key)
	}
}

func TestNewDoesNotRevealAnInvalidURL(t *testing.T) {
	_, err := slack.New(nil, "hooks.slack.example/services/secret")
	if !errors.Is(err, httppost.ErrInvalidURL) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}
