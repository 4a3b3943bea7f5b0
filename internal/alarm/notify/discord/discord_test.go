package discord_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/discord"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, notifiers.Hook(t, discord.New, "https://discord.example/x"), m)
}

func length(s string) int { return len(utf16.Encode([]rune(s))) }

// check checks that a body keeps Discord's limits of an embed and contains no markup.
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
	strict.DisallowUnknownFields() // such as content, in which mentions notify users
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

func TestErrorsSayWhatToDo(t *testing.T) {
	server := sink.New(t)
	n := notifiers.Hook(t, discord.New, server.URL())
	const deleted = "create a new one and put its URL into the Secret"
	notifiers.ExpectFailures(t, n, server, []byte("{}"),
		notifiers.OnStatus(404, `{"message": "Unknown Webhook", "code": 10015}`, notify.Stop, deleted),
		notifiers.OnStatus(401, `{"message": "Invalid Webhook Token", "code": 50027}`, notify.Stop, deleted),
		notifiers.OnStatus(400, `{"message": "Invalid Form Body secret"}`, notify.Reject, "refuses this message"),
		notifiers.Failure{Answer: sink.TooMany(3), Class: notify.Retry, Text: "fewer messages", RetryAfter: 3 * time.Second},
		notifiers.Failure{Answer: sink.Redirect(302, "http://127.0.0.1/secret"), Class: notify.Stop, Text: "redirects are not followed"},
	)
	server.Script(sink.Status(http.StatusNoContent, ""))
	if err := n.Send(t.Context(), "key", render(t, messages.New("a", "b"))); err != nil {
		t.Errorf("204: %v", err)
	}
}

func TestAnAddressOfTheAuthorIsALink(t *testing.T) {
	messages.Shows(t, render(t, messages.WithURL()), []string{`Runbook\\: ` + messages.AuthorsURL + `.\n`, `https\\:`}, []string{` https://evil`, `\n@here`, `\n*bold*`, messages.AuthorsURL + `.evil`})
}
