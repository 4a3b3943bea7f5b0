package mattermost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/mattermost"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, notifiers.Hook(t, mattermost.New, "https://chat.example/x"), m)
}

func length(s string) int { return len(utf16.Encode([]rune(s))) }

// interpreted is what Mattermost turns into a mention, a link, an emoji, a heading or code, also if a
// backslash is before it.
var interpreted = regexp.MustCompile(`(^|[^\w])@[\pL\pN._-]|://|(?i:https?|ftp|mailto|tel):[^\x{2060}]|:[\w+-]*[A-Za-z_+-][\w+-]*:|(^|\s)[#~][\pL\w]|@[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,}|(^|\n)[= ]`)

// raw is what only Slack's markup and references to characters contain.
var raw = regexp.MustCompile(`[<>]|&(?:[^lga]|$)`)

// check checks that a body is one attachment within Mattermost's limits, without markup or mentions
// of an Event.
func check(body []byte) error {
	var m struct {
		Attachments []struct{ Fallback, Color, Title, Text, Footer string }
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields() // such as text or channel
	if err := strict.Decode(&m); err != nil {
		return err
	}
	if len(m.Attachments) != 1 {
		return fmt.Errorf("%d attachments", len(m.Attachments))
	}
	a := m.Attachments[0]
	if length(a.Title) < 1 || length(a.Title) > 250 || length(a.Text) > 4000 || length(a.Fallback) > 250 || length(a.Footer) > 300 {
		return fmt.Errorf("%d, %d, %d and %d characters", length(a.Title), length(a.Text), length(a.Fallback), length(a.Footer))
	}
	for _, text := range []string{a.Title, a.Text} {
		if found := interpreted.FindString(strings.ReplaceAll(text, `\`, "")); found != "" {
			return fmt.Errorf("Mattermost interprets %q in %q", found, text)
		}
		if found := raw.FindString(text); found != "" {
			return fmt.Errorf("%q in %q", found, text)
		}
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
		case strings.IndexByte("\\`*{}[]()#+-.!_~|", c) >= 0:
			return fmt.Errorf("%q is not escaped in %q", c, text)
		}
	}
	return nil
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	messages.LookAsTheyShould(t, render, check)
}

func TestRenderKeepsTheLimits(t *testing.T) {
	messages.KeepLimits(t, render, check)
}

// Users copy names into a command.
func TestNamesStayAsTheyAre(t *testing.T) {
	const names = "example/web:v1-latest@sha256:0a1b shop/web-0 2026-11-20 11:00:00 user@example"
	var m struct{ Attachments []struct{ Text string } }
	if err := json.Unmarshal(render(t, messages.New("a", names)), &m); err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(m.Attachments[0].Text, `\`, ""); got != names {
		t.Errorf("%q, want %q", got, names)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("@all <!channel> <@abc>", "[click](https://evil.example) **b** ~town-square\n# h", "prod")
	f.Add("@\x00all <\x00!channel>", ":\x00tada:", "prod")
	f.Add("<evil%2Eexample/x|click here> a <b|c> d", "https:/evil%2Eexample https:evil <x:/y>", "prod")
	f.Add("Title\n====", "\n\n    code :8ball: admin@evil.example #\uae34\uae09 \uc54c\ub9bc@all", "prod")
	f.Add("mailto:a@b.example TEL:1 a.@all @@here", "&lt; #tag :tada: www.evil.example "+strings.Repeat("@", 3000), "\xff")
	messages.Fuzz(f, render, check)
}

func TestErrorsSayWhatToDo(t *testing.T) {
	server := sink.New(t)
	n := notifiers.Hook(t, mattermost.New, server.URL())
	const deleted = "create a new one and put its URL into the Secret"
	notifiers.ExpectFailures(t, n, server, []byte("{}"),
		notifiers.OnStatus(400, `{"id": "web.incoming_webhook.invalid.app_error", "message": "Invalid webhook.", "status_code": 400}`, notify.Stop, deleted),
		notifiers.OnStatus(404, "", notify.Stop, deleted),
		notifiers.OnStatus(501, `{"id": "web.incoming_webhook.disabled.app_error", "status_code": 501}`, notify.Stop, "enables them"),
		notifiers.OnStatus(400, `{"id": "api.webhook.incoming.error", "message": "secret"}`, notify.Reject, "refuses this message"),
		notifiers.Failure{Answer: sink.TooMany(3), Class: notify.Retry, Text: "fewer messages", RetryAfter: 3 * time.Second},
	)
	server.Script(sink.Status(200, "ok"))
	if err := n.Send(t.Context(), "key", render(t, messages.New("a", "b"))); err != nil {
		t.Errorf("200: %v", err)
	}
}

func TestAnAddressOfTheAuthorIsALink(t *testing.T) {
	messages.Shows(t, render(t, messages.WithURL()), []string{`Runbook: ` + messages.AuthorsURL + `.\n`, "https:\u2060"}, []string{` https://evil`, `\n@here`, `*bold*`, messages.AuthorsURL + ` `, messages.AuthorsURL + `.evil`})
}
