package webhook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/config/samples"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/testing/messages"
)

// vendor is a stand-in for a service. It accepts only what the service documents.
type vendor struct {
	// payload returns an empty payload, without the fields that the samples do not need.
	payload func() any
	// check returns why the service would refuse the payload.
	check func(payload any, raw []byte) error
	// status and answer are those for an accepted message.
	status int
	answer string
}

type markdown struct{ Text, Username, Alias string }

type post struct {
	MsgType string `json:"msg_type"`
	Content struct {
		Post map[string]struct {
			Title   string
			Content [][]struct{ Tag, Text string }
		}
	}
}

type alert struct {
	Message, Alias, Description, Source, Priority string
	Tags                                          []string
	Details                                       map[string]string
}

var vendors = map[string]vendor{
	"rocketchat": {payload: func() any { return &markdown{} }, check: checkMarkdown(5_000), status: http.StatusOK, answer: `{"success":true}`},
	"webex": {
		payload: func() any { return &struct{ Text string }{} },
		check: func(payload any, _ []byte) error {
			if n := len(payload.(*struct{ Text string }).Text); n == 0 || n > 7439 {
				return fmt.Errorf("a text of %d bytes", n)
			}
			return nil
		},
		status: http.StatusNoContent,
	},
	"lark": {
		payload: func() any { return &post{} },
		check: func(payload any, raw []byte) error {
			p := payload.(*post)
			content := p.Content.Post["en_us"].Content
			if p.MsgType != "post" || len(raw) > 20<<10 || len(content) != 1 || content[0][0].Tag != "text" {
				return fmt.Errorf("a post of %d bytes: %+v", len(raw), p)
			}
			return nil
		},
		status: http.StatusOK, answer: `{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}`,
	},
	"opsgenie": {
		payload: func() any { return &alert{} },
		check: func(payload any, _ []byte) error {
			a := payload.(*alert)
			tooLong := func(tag string) bool { return utf8.RuneCountInString(tag) > 50 }
			switch {
			case a.Message == "" || utf8.RuneCountInString(a.Message) > 130:
				return errors.New("message")
			case len(a.Alias) > 512 || utf8.RuneCountInString(a.Description) > 15_000 || len(a.Source) > 100:
				return errors.New("a text is too long")
			case len(a.Tags) > 20 || slices.ContainsFunc(a.Tags, tooLong):
				return errors.New("tags")
			case !slices.Contains([]string{"P1", "P2", "P3", "P4", "P5"}, a.Priority):
				return errors.New("priority")
			}
			return nil
		},
		status: http.StatusAccepted, answer: `{"result":"Request will be processed","took":0.1,"requestId":"1"}`,
	},
}

// checkMarkdown checks a text with one code block, in which nothing is markup.
func checkMarkdown(limit int) func(any, []byte) error {
	return func(payload any, _ []byte) error {
		text := payload.(*markdown).Text
		inner, closed := strings.CutSuffix(strings.TrimPrefix(text, "```\n"), "\n```")
		if !closed || strings.ContainsAny(inner, "`@") || utf8.RuneCountInString(text) > limit {
			return fmt.Errorf("a text of %d bytes that may contain markup", len(text))
		}
		return nil
	}
}

func (v vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	payload := v.payload()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err == nil {
		err = decoder.Decode(payload)
	}
	if err == nil {
		err = v.check(payload, raw)
	}
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "refused", http.StatusBadRequest)
		return
	}
	w.WriteHeader(v.status)
	_, _ = io.WriteString(w, v.answer)
}

// sampleRequest returns the request of a sample receiver.
func sampleRequest(t *testing.T, name string) v1alpha1.WebhookRequest {
	t.Helper()
	objects, err := samples.ReceiverOf(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		var receiver v1alpha1.ClusterAlarmReceiver
		if o.GetKind() != v1alpha1.KindClusterAlarmReceiver {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &receiver); err != nil {
			t.Fatal(err)
		}
		return receiver.Spec.Webhook.WebhookRequest
	}
	t.Fatalf("the sample %s has no receiver", name)
	return v1alpha1.WebhookRequest{}
}

func TestEachVendorAcceptsTheMessagesOfItsSample(t *testing.T) {
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(v)
			t.Cleanup(server.Close)
			var failures []string
			n := newFrom(t, webhook.Config{
				URL: server.URL, Request: sampleRequest(t, name),
				BodyFailed: func(text string) { failures = append(failures, text) },
			})
			all := messages.Kinds()
			delete(all, "empty") // no message has an empty title
			for _, unit := range messages.Units() {
				m := messages.Kinds()["digest"]
				m.Title, m.Text = cut(unit, 150), cut(unit, 3000)
				all["long "+unit] = m
			}
			for kind, m := range all {
				body, err := n.Render(m)
				if err == nil {
					err = n.Send(t.Context(), "key", body)
				}
				if err != nil {
					t.Errorf("the message %q: %v\n%s", kind, err, body)
				}
			}
			if len(failures) > 0 {
				t.Errorf("expressions failed: %q", failures)
			}
		})
	}
}

// cut repeats a unit up to a number of characters.
func cut(unit string, characters int) string {
	return string([]rune(strings.Repeat(strings.ToValidUTF8(unit, "?"), characters))[:characters])
}

// Lark reports failures in an answer with status 200.
func TestAnAnswerThatIsNotTheExpectedOneIsAFailure(t *testing.T) {
	for answer, accepted := range map[string]bool{
		`{"code":0}`: true, `{ "code" : 0, "msg": "ok"}`: true, `{"code":"0"}`: true,
		`{"code":19024,"msg":"Key Words Not Found"}`: false, `{"StatusCode":0}`: false, `{"code":null}`: false, `ok`: false, ``: false, `[0]`: false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		n := newFrom(t, webhook.Config{URL: server.URL, Request: v1alpha1.WebhookRequest{
			ExpectedAnswer: &v1alpha1.ExpectedAnswer{Field: "code", Value: "0"},
		}})
		err := n.Send(t.Context(), "key", []byte(`{}`))
		failure, failed := errors.AsType[*notify.SendError](err)
		if failed == accepted || failed && (failure.Class != notify.Stop || strings.Contains(failure.Text, "Words")) {
			t.Errorf("%s: got %v", answer, err)
		}
		server.Close()
	}
}
