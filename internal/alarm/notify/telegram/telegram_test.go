package telegram_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/telegram"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

const secret = "123456:secret-AAE"

func newNotifier(t testing.TB, url string) *telegram.Notifier {
	t.Helper()
	n, err := telegram.New(notifiers.Client(t), telegram.Config{URL: url, Token: " " + secret + "\n", ChatID: "-100123", ThreadID: 7})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func render(t testing.TB, m message.Message) []byte {
	t.Helper()
	return notifiers.Render(t, newNotifier(t, telegram.DefaultURL), m)
}

// check checks Telegram's rules. A text has 1 to 4,096 UTF-16 code units. Its entities do
// not overlap, and neither start nor end with white space. All of the text except line
// breaks must be code, which Telegram does not interpret.
func check(raw []byte) error {
	var m struct {
		ChatID   string `json:"chat_id"`
		ThreadID int64  `json:"message_thread_id"`
		Text     string
		Entities []struct {
			Type           string
			Offset, Length int
		}
		LinkPreview struct {
			Disabled bool `json:"is_disabled"`
		} `json:"link_preview_options"`
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields() // such as parse_mode
	if err := strict.Decode(&m); err != nil {
		return err
	}
	units := utf16.Encode([]rune(m.Text))
	if len(units) < 1 || len(units) > 4096 || !m.LinkPreview.Disabled {
		return fmt.Errorf("%d characters, link previews disabled: %t", len(units), m.LinkPreview.Disabled)
	}
	covered := 0
	for _, e := range m.Entities {
		if e.Offset < covered || e.Length < 1 || e.Offset+e.Length > len(units) || e.Type != "code" && e.Type != "pre" {
			return fmt.Errorf("the entity %+v of %d characters, %d of them covered", e, len(units), covered)
		}
		if between := string(utf16.Decode(units[covered:e.Offset])); strings.Trim(between, "\n") != "" {
			return fmt.Errorf("%q is not code", between)
		}
		part := string(utf16.Decode(units[e.Offset : e.Offset+e.Length]))
		if part != strings.TrimSpace(part) {
			return fmt.Errorf("the entity %q begins or ends with white space", part)
		}
		covered = e.Offset + e.Length
	}
	if covered != len(units) {
		return fmt.Errorf("%d of %d characters are code", covered, len(units))
	}
	return nil
}

func TestRenderMatchesTheGoldenFiles(t *testing.T) {
	messages.LookAsTheyShould(t, render, check)
}

func TestRenderKeepsTelegramsLimits(t *testing.T) {
	messages.KeepLimits(t, render, check)
}

func FuzzRender(f *testing.F) {
	f.Add("@channel /ban #tag", "https://evil.example <b>", "prod")
	f.Add("", " \n🔥 ", "\xff")
	messages.Fuzz(f, render, check)
}

func TestSendAddressesTheChat(t *testing.T) {
	server := sink.New(t)
	n := newNotifier(t, server.URL())
	if err := n.Send(t.Context(), "key", render(t, messages.New("a", "b"))); err != nil {
		t.Fatal(err)
	}
	body := server.Accepted()[0].Body
	if err := check(body); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(body, []byte(`"chat_id":"-100123","message_thread_id":7`)) {
		t.Errorf("the body is %s", body)
	}
	if key := n.Limit().Key; strings.Contains(key, "secret") {
		t.Errorf("the limit's key reveals the token: %s", key)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	server := sink.New(t)
	tooMany := notifiers.OnStatus(429, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5","parameters":{"retry_after":5}}`, notify.Retry, "fewer messages")
	tooMany.RetryAfter = 5 * time.Second
	tooLong := notifiers.OnStatus(429, `{"ok":false,"parameters":{"retry_after":9223372036854775807}}`, notify.Retry, "fewer messages")
	tooLong.RetryAfter = 24 * time.Hour
	notifiers.ExpectFailures(t, newNotifier(t, server.URL()), server, render(t, messages.New("a", "b")), tooMany, tooLong,
		notifiers.OnStatus(400, `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, notify.Stop, "correct spec.telegram.chatID"),
		notifiers.OnStatus(400, `{"ok":false,"description":"Bad Request: group chat was upgraded to a supergroup chat"}`, notify.Stop, "became a supergroup"),
		notifiers.OnStatus(400, `{"ok":false,"description":"Bad Request: message is too long, secret"}`, notify.Reject, "refuses this message"),
		notifiers.OnStatus(401, `{"ok":false,"error_code":401,"description":"Unauthorized"}`, notify.Stop, "token is not valid"),
		notifiers.OnStatus(404, `{"ok":false,"error_code":404,"description":"Not Found"}`, notify.Stop, "token is not valid"),
		notifiers.OnStatus(403, `{"ok":false,"description":"Forbidden: bot was kicked from the supergroup chat"}`, notify.Stop, "the bot was removed"),
		notifiers.OnStatus(500, `no JSON secret`, notify.Retry, "internal error"),
	)
}

func TestNewDoesNotRevealTheToken(t *testing.T) {
	for _, token := range []string{"", "secret", "1:secret/../x", "1:secret?x"} {
		if _, err := telegram.New(nil, telegram.Config{URL: telegram.DefaultURL, Token: token, ChatID: "1"}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestAnAddressOfTheAuthorIsALink(t *testing.T) {
	messages.Shows(t, render(t, messages.WithURL()), []string{`"type":"text_link","url":"` + messages.AuthorsURL + `"`, `{"length":9,"offset":`}, []string{`"url":"https://evil`, `"type":"pre"`})
}
