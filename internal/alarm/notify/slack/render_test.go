package slack_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
)

func newNotifier(t testing.TB, url string) *slack.Notifier {
	t.Helper()
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test"})
	t.Cleanup(client.Close)
	n, err := slack.New(client, url)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	body, err := newNotifier(t, "https://hooks.slack.example/services/x").Render(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	for name, m := range messages.Kinds() {
		t.Run(name, func(t *testing.T) { messages.Golden(t, name, render(t, m)) })
	}
}

// body is what Slack makes of one, as far as the tests look at it.
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
	for what, unit := range map[string]string{
		"ASCII": "a", "two bytes": "é", "three bytes": "봉", "outside the basic plane": "🔥", "entities": "&<>", "words": "word & ",
		"combined emoji": "👩‍👩‍👧",
	} {
		t.Run(what, func(t *testing.T) {
			long := strings.Repeat(unit, 5000)
			m := messages.New(long, long)
			m.Cluster, m.Alarm.Name = long, long
			assertHarmless(t, render(t, m))
		})
	}
}

// assertHarmless checks what must hold of any body, whatever it was made of.
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
				t.Errorf("a context of %d elements", len(block.Elements))
			}
			for _, e := range block.Elements {
				assertElement(t, e)
			}
		default:
			t.Errorf("a block of type %q", block.Type)
		}
	}
}

// assertElement lets only our own dates be markdown.
func assertElement(t testing.TB, e object) {
	t.Helper()
	if e.Type == "plain_text" {
		assertText(t, "context", e.Text, 3000)
		return
	}
	if text := strings.TrimPrefix(e.Text, "since "); !e.Verbatim || !strings.HasPrefix(text, "<!date^") || strings.Count(text, "<") != 1 {
		t.Errorf("markdown that is no date: %+v", e)
	}
}

func assertText(t testing.TB, what, text string, limit int) {
	t.Helper()
	if n := len(utf16.Encode([]rune(text))); n == 0 || n > limit {
		t.Errorf("%s has %d characters, of at least 1 and at most %d", what, n, limit)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) && limit == 0 {
		t.Errorf("%s is not valid UTF-8", what)
	}
	if strings.ContainsAny(text, "<>") {
		t.Errorf("%s holds < or >: %q", what, text)
	}
	rest := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(text)
	if strings.Contains(rest, "&") {
		t.Errorf("%s holds a bare & or half an entity: %q", what, text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}); i >= 0 {
		t.Errorf("%s holds a control character: %q", what, text)
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
