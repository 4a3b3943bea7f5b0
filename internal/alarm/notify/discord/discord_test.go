package discord_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/discord"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func newNotifier(t testing.TB, url string) *discord.Notifier {
	t.Helper()
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test"})
	t.Cleanup(client.Close)
	n, err := discord.New(client, url)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	body, err := newNotifier(t, "https://discord.example/x").Render(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func length(s string) int { return len(utf16.Encode([]rune(s))) }

// check holds a body against Discord's limits of an embed, and against what may act.
func check(raw []byte) error {
	var m struct {
		Embeds []struct {
			Title, Description string
			Color              int
			Footer             struct{ Text string }
		}
		AllowedMentions struct{ Parse []string } `json:"allowed_mentions"`
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields() // content, where a mention could notify, among them
	if err := strict.Decode(&m); err != nil {
		return err
	}
	if m.AllowedMentions.Parse == nil || len(m.AllowedMentions.Parse) != 0 {
		return fmt.Errorf("mentions are allowed: %v", m.AllowedMentions.Parse)
	}
	if len(m.Embeds) != 1 {
		return fmt.Errorf("%d embeds", len(m.Embeds))
	}
	e := m.Embeds[0]
	title, description, footer := length(e.Title), length(e.Description), length(e.Footer.Text)
	if title < 1 || title > 256 || description > 4096 || footer > 2048 || title+description+footer > 6000 {
		return fmt.Errorf("%d, %d and %d characters", title, description, footer)
	}
	for _, text := range []string{e.Title, e.Description} {
		if err := escaped(text); err != nil {
			return err
		}
	}
	return nil
}

func escaped(text string) error {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
		case strings.IndexByte("\\*_~`|>#[]()<@", c) >= 0:
			return fmt.Errorf("%q is not escaped in %q", c, text)
		}
	}
	return nil
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	messages.LookAsTheyShould(t, render, check)
}

func TestRenderKeepsDiscordsLimits(t *testing.T) {
	messages.KeepLimits(t, render, check)
}

func FuzzRender(f *testing.F) {
	f.Add("@everyone <@1>", "[click](https://evil.example) **b** ||s||\n# h", "prod")
	f.Add("", strings.Repeat("@", 3000), "\xff")
	messages.Fuzz(f, render, check)
}

func TestSendSaysWhatToDo(t *testing.T) {
	server := sink.New(t)
	n := newNotifier(t, server.URL())
	for _, tc := range []struct {
		answer sink.Behaviour
		class  notify.Class
		want   string
		after  time.Duration
	}{
		{sink.Status(http.StatusNotFound, `{"message": "Unknown Webhook", "code": 10015}`), notify.Park, "the webhook was deleted", 0},
		{sink.Status(http.StatusUnauthorized, `{"message": "Invalid Webhook Token", "code": 50027}`), notify.Park, "the webhook was deleted", 0},
		{sink.Status(http.StatusBadRequest, `{"code": 50035, "message": "Invalid Form Body secret"}`), notify.Reject, "refuses this message", 0},
		{sink.TooMany(3), notify.Retry, "fewer messages", 3 * time.Second},
		{sink.Redirect(302, "http://127.0.0.1/secret"), notify.Park, "redirects are not followed", 0},
	} {
		server.Script(tc.answer)
		e, ok := errors.AsType[*notify.SendError](n.Send(t.Context(), "key", []byte("{}")))
		if !ok || e.Class != tc.class || !strings.Contains(e.Text, tc.want) || e.RetryAfter != tc.after || strings.Contains(e.Text, "secret") {
			t.Errorf("got %+v, want a %s that says %q", e, tc.class, tc.want)
		}
	}
	server.Script(sink.Status(http.StatusNoContent, ""))
	if err := n.Send(t.Context(), "key", render(t, messages.New("a", "b"))); err != nil {
		t.Errorf("204: %v", err)
	}
}
