package googlechat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/googlechat"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, notifiers.Hook(t, googlechat.New, "https://chat.example/x"), m)
}

func length(s string) int { return len(utf16.Encode([]rune(s))) }

// markup is the HTML that a card may contain: a colored title and a footer in italics.
var markup = regexp.MustCompile(`^(<font color="#[0-9A-F]{6}"><b>[^<>]*</b></font>|<i>[^<>]*</i>|[^<>]*)$`)

// entity is a character reference, which stands for one character.
var entity = regexp.MustCompile(`&(amp|lt|gt|#34|#39);`)

// check checks that a body is a message of one card that Google Chat accepts, without markup of an
// Event.
func check(raw []byte) error {
	var m struct {
		FallbackText string
		CardsV2      []struct {
			CardID string
			Card   struct {
				Sections []struct {
					Widgets []struct{ TextParagraph struct{ Text string } }
				}
			}
		}
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields() // such as text, in which mentions notify users
	if err := strict.Decode(&m); err != nil {
		return err
	}
	if len(raw) > 32_000 {
		return fmt.Errorf("%d bytes", len(raw))
	}
	if n := length(m.FallbackText); n < 1 || n > 250 {
		return fmt.Errorf("%d characters for notifications", n)
	}
	if len(m.CardsV2) != 1 || m.CardsV2[0].CardID == "" || len(m.CardsV2[0].Card.Sections) != 1 {
		return fmt.Errorf("not one card with one section: %+v", m)
	}
	for _, widget := range m.CardsV2[0].Card.Sections[0].Widgets {
		text := widget.TextParagraph.Text
		if !markup.MatchString(text) || bytes.ContainsRune([]byte(entity.ReplaceAllString(text, "")), '&') {
			return fmt.Errorf("markup in %q", text)
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

func FuzzRender(f *testing.F) {
	f.Add("<users/all> <b>", "<a href=\"https://evil.example\">click</a> &lt;b&gt;\n# h", "prod")
	messages.Fuzz(f, render, check)
}

func TestErrorsSayWhatToDo(t *testing.T) {
	server := sink.New(t)
	n := notifiers.Hook(t, googlechat.New, server.URL())
	const deleted = "create a new one and put its URL into the Secret"
	notifiers.ExpectFailures(t, n, server, []byte("{}"),
		notifiers.OnStatus(404, `{"error": {"code": 404, "status": "NOT_FOUND"}}`, notify.Stop, deleted),
		notifiers.OnStatus(403, `{"error": {"code": 403, "status": "PERMISSION_DENIED"}}`, notify.Stop, deleted),
		notifiers.OnStatus(401, `{"error": {"code": 401, "status": "UNAUTHENTICATED"}}`, notify.Stop, deleted),
		notifiers.OnStatus(400, `{"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}`, notify.Stop, deleted),
		notifiers.OnStatus(400, `{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "secret"}}`, notify.Reject, "refuses this message"),
		notifiers.Failure{Answer: sink.TooMany(3), Class: notify.Retry, Text: "fewer messages", RetryAfter: 3 * time.Second},
	)
	server.Script(sink.Status(200, `{"name": "spaces/a/messages/b"}`))
	if err := n.Send(t.Context(), "key", render(t, messages.New("a", "b"))); err != nil {
		t.Errorf("200: %v", err)
	}
}

func TestAnAddressOfTheAuthorIsALink(t *testing.T) {
	messages.Shows(t, render(t, messages.WithURL()), []string{`Runbook: <a href=\"https://wiki.example.com/run_books?pod=web-0&amp;x=1\">https://wiki.example.com/run_books?pod=web-0&amp;x=1</a>.\n`}, []string{`href=\"https://evil`, `</a>.evil`})
}
