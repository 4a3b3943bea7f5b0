package teams_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/teams"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, notifiers.Hook(t, teams.New, "https://workflow.example/x"), m)
}

// check checks that a body has at most 28 KB and is a message with one card. The card may
// contain only elements in which Teams does not interpret Markdown.
func check(raw []byte) error {
	if len(raw) > 28<<10 {
		return fmt.Errorf("the body has %d bytes", len(raw))
	}
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []struct {
					Type    string
					Inlines []struct {
						Type, Text, Size, Weight string
						IsSubtle                 bool
					}
				}
				MSTeams struct{ Width string }
				Schema  string `json:"$schema"`
			}
		}
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields() // such as entities, which declare mentions
	if err := strict.Decode(&m); err != nil {
		return err
	}
	if m.Type != "message" || len(m.Attachments) != 1 || m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
		return errors.New("not a message with one card")
	}
	c := m.Attachments[0].Content
	if c.Type != "AdaptiveCard" || c.Version == "" || len(c.Body) == 0 {
		return errors.New("not a card")
	}
	for _, block := range c.Body {
		if block.Type != "RichTextBlock" || len(block.Inlines) != 1 || block.Inlines[0].Type != "TextRun" || block.Inlines[0].Text == "" {
			return fmt.Errorf("not a block with one run: %+v", block)
		}
		if strings.ContainsAny(block.Inlines[0].Text, "\n\x00\x1b\u202e") {
			return fmt.Errorf("a control character in %q", block.Inlines[0].Text)
		}
	}
	return nil
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	messages.LookAsTheyShould(t, render, check)
}

func TestRenderKeepsTeamsLimits(t *testing.T) {
	messages.KeepLimits(t, render, check, "\x01", "a\n", "<")
}

func FuzzRender(f *testing.F) {
	f.Add("<at>everyone</at>", "**bold** [click](https://evil.example)\n# title", "prod")
	f.Add("", "\n\n", "\xff")
	messages.Fuzz(f, render, check)
}

func TestSendIsAcceptedAndDoesNotRevealTheURL(t *testing.T) {
	server := sink.New(t)
	n := notifiers.Hook(t, teams.New, server.URL())
	server.Script(sink.Status(http.StatusAccepted, ""))
	if err := n.Send(t.Context(), "key", render(t, messages.New("a", "b"))); err != nil {
		t.Errorf("202: %v", err)
	}
	if err := check(server.Accepted()[0].Body); err != nil {
		t.Error(err)
	}
	notifiers.ExpectFailures(t, n, server, nil,
		notifiers.Failure{Answer: sink.Redirect(302, "http://127.0.0.1/secret"), Class: notify.Stop, Text: "redirects are not followed"})
	if limit := n.Limit(); limit.Every != time.Second || strings.Contains(limit.Key, "secret") {
		t.Errorf("limit is %+v", limit)
	}
}

func TestAnAddressOfTheAuthorIsALink(t *testing.T) {
	messages.Shows(t, render(t, messages.WithURL()), []string{`{"selectAction":{"type":"Action.OpenUrl","url":"` + messages.AuthorsURL + `"},"text":"` + messages.AuthorsURL + `","type":"TextRun"}`}, []string{`"url":"https://evil`, `.evil.org"},`})
}
