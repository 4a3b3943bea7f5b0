package slack_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func newNotifier(t testing.TB, url string) *httppost.Hook {
	t.Helper()
	n, err := slack.New(notifiers.Client(t), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, newNotifier(t, "https://hooks.slack.example/services/x"), m)
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	for name, m := range messages.Kinds() {
		t.Run(name, func(t *testing.T) { messages.Golden(t, name, render(t, m)) })
	}
}

// body has the fields of a message that the tests check.
type body struct {
	Text   string `json:"text"`
	Parse  string `json:"parse"`
	Blocks []struct {
		Type     string   `json:"type"`
		Text     object   `json:"text"`
		Elements []object `json:"elements"`
	} `json:"blocks"`
}

type object struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Verbatim bool   `json:"verbatim"`
}

func decode(t testing.TB, raw []byte) body {
	t.Helper()
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRenderKeepsSlacksLimits(t *testing.T) {
	for _, unit := range messages.Units() {
		t.Run(unit, func(t *testing.T) { assertHarmless(t, render(t, messages.Long(unit))) })
	}
}

// assertHarmless checks that a body keeps Slack's limits and contains no markup.
func assertHarmless(t testing.TB, raw []byte) {
	t.Helper()
	b := decode(t, raw)
	if b.Parse != "none" {
		t.Errorf("parse is %q", b.Parse)
	}
	assertText(t, "text", b.Text, 1000)
	for _, block := range b.Blocks {
		limit := map[string]int{"header": 150, "section": 3000}[block.Type]
		switch block.Type {
		case "header", "section":
			if block.Text.Type != "plain_text" {
				t.Errorf("the %s is %s", block.Type, block.Text.Type)
			}
			assertText(t, block.Type, block.Text.Text, limit)
		case "context":
			if len(block.Elements) == 0 || len(block.Elements) > 10 {
				t.Errorf("a context with %d elements", len(block.Elements))
			}
			for _, e := range block.Elements {
				assertElement(t, e)
			}
		default:
			t.Errorf("a block of type %q", block.Type)
		}
	}
}

// assertElement checks that only dates are markdown.
func assertElement(t testing.TB, e object) {
	t.Helper()
	if e.Type == "plain_text" {
		assertText(t, "context", e.Text, 3000)
		return
	}
	if text := strings.TrimPrefix(e.Text, "since "); !e.Verbatim || !strings.HasPrefix(text, "<!date^") || strings.Count(text, "<") != 1 {
		t.Errorf("markdown other than a date: %+v", e)
	}
}

func assertText(t testing.TB, field, text string, limit int) {
	t.Helper()
	if n := len(utf16.Encode([]rune(text))); n == 0 || n > limit {
		t.Errorf("%s has %d characters, of at least 1 and at most %d", field, n, limit)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) && limit == 0 {
		t.Errorf("%s is not valid UTF-8", field)
	}
	if strings.ContainsAny(text, "<>") {
		t.Errorf("%s holds < or >: %q", field, text)
	}
	rest := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(text)
	if strings.Contains(rest, "&") {
		t.Errorf("%s holds a bare & or half an entity: %q", field, text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}); i >= 0 {
		t.Errorf("%s holds a control character: %q", field, text)
	}
}

func TestRenderCutsWithAnEllipsis(t *testing.T) {
	header := decode(t, render(t, messages.New(strings.Repeat("봉", 200), ""))).Blocks[0].Text.Text
	if want := "⚠️ " + strings.Repeat("봉", 146) + "…"; header != want {
		t.Errorf("header is %q, want %q", header, want)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("<!channel>", "`*_~ & \x1b[0m\n", "prod", int64(0))
	f.Add("", "", "", int64(-1))
	f.Add(strings.Repeat("&", 149), strings.Repeat("🔥", 1600), "\xff\xfe", int64(1)<<60)
	f.Fuzz(func(t *testing.T, title, text, name string, seconds int64) {
		m := messages.New(title, text)
		m.Cluster, m.Alarm.Name, m.FirstSeen = name, name, time.Unix(seconds, 0)
		assertHarmless(t, render(t, m))
	})
}

func TestErrorsOfSlackSayWhatToDo(t *testing.T) {
	server := sink.New(t)
	n := newNotifier(t, server.URL())
	notifiers.ExpectFailures(t, n, server, []byte("{}"),
		notifiers.OnStatus(400, "invalid_payload", notify.Reject, "Slack does not understand this message: it is dropped (HTTP 400 Bad Request)"),
		notifiers.OnStatus(403, "action_prohibited", notify.Stop, "the workspace's administrator (HTTP 403 Forbidden)"),
		notifiers.OnStatus(403, "invalid_token", notify.Stop, "put the one that Slack shows"),
		notifiers.OnStatus(404, "no_service", notify.Stop, "put its URL into the Secret (HTTP 404 Not Found)"),
		notifiers.OnStatus(404, "no_service\n", notify.Stop, "the webhook was removed"),
		notifiers.OnStatus(404, "channel_not_found", notify.Stop, "the channel does not exist"),
		notifiers.OnStatus(410, "channel_is_archived", notify.Stop, "the channel is archived"),
		notifiers.OnStatus(500, "rollup_error", notify.Retry, "Slack has an internal error"),
		notifiers.OnStatus(403, "xoxb-secret-token", notify.Stop, "the receiver refuses the credentials: correct the Secret (HTTP 403 Forbidden)"),
	)
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
		t.Errorf("the key reveals the URL: %s", a.Key)
	}
}

func TestNewDoesNotRevealAnInvalidURL(t *testing.T) {
	_, err := slack.New(nil, "hooks.slack.example/services/secret", nil)
	if !errors.Is(err, httppost.ErrInvalidURL) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestAnAddressOfTheAuthorIsALink(t *testing.T) {
	messages.Shows(t, render(t, messages.WithURL()), []string{`{"elements":[{"text":"Runbook: ","type":"text"},{"text":"` + messages.AuthorsURL + `","type":"link","url":"` + messages.AuthorsURL + `"},{"text":".\n@here *bold* https://evil.example.org `}, []string{`"url":"https://evil`, `.evil.org","type":"link"`})
}
