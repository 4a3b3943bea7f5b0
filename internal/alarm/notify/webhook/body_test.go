package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm/match"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/webhook"
	"github.com/bongsu-io/bongsu/internal/testing/notifiers"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

func request(body string) v1alpha1.WebhookRequest { return v1alpha1.WebhookRequest{Body: body} }

func TestABodyOfOnesOwnIsSentWithItsMethodAndContentType(t *testing.T) {
	for name, tc := range map[string]struct {
		request             v1alpha1.WebhookRequest
		method, contentType string
		body                string
	}{
		"default": {request(`{"text": "${message.title}"}`), http.MethodPost, "application/json", fmt.Sprintf(`{"text": %q}`, example().Title)},
		"another type of JSON": {
			v1alpha1.WebhookRequest{Body: `[${message.count}]`, ContentType: "application/vnd.api+json; charset=utf-8", Method: "PUT"},
			http.MethodPut, "application/vnd.api+json; charset=utf-8", `[1]`,
		},
		"text": {
			v1alpha1.WebhookRequest{Body: `"${message.title}"`, ContentType: "text/plain", Method: "PATCH"},
			http.MethodPatch, "text/plain", `"` + example().Title + `"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := sink.New(t)
			n := newFrom(t, webhook.Config{URL: server.URL(), Request: tc.request})
			if err := n.Send(t.Context(), "key", notifiers.Render(t, n, example())); err != nil {
				t.Fatal(err)
			}
			got := server.Accepted()[0]
			if got.Header.Get("Content-Type") != tc.contentType || string(got.Body) != tc.body || got.Method != tc.method {
				t.Errorf("got %s %s %s, want %s %s %s", got.Method, got.Header.Get("Content-Type"), got.Body, tc.method, tc.contentType, tc.body)
			}
		})
	}
}

// A prepared body is only sent by a notifier of its format.
func TestTheFormatDependsOnTheTemplate(t *testing.T) {
	format := func(r v1alpha1.WebhookRequest) string {
		return newFrom(t, webhook.Config{URL: "https://a.example", Request: r}).Format()
	}
	first := format(request(`{"a": 1}`))
	if again := format(request(`{"a": 1}`)); again != first {
		t.Errorf("the same template has the formats %s and %s", first, again)
	}
	for name, other := range map[string]v1alpha1.WebhookRequest{
		"no body": {}, "another body": request(`{"a": 2}`), "another type": {Body: `{"a": 1}`, ContentType: "text/plain"},
	} {
		if format(other) == first {
			t.Errorf("%s has the same format %s", name, first)
		}
	}
}

func TestANotifierOfAnInvalidBodyIsNotBuilt(t *testing.T) {
	_, err := webhook.New(nil, webhook.Config{URL: "https://a.example", Request: request(`{"a": ${message.nothing}}`)})
	invalid, ok := errors.AsType[*match.CompileError](err)
	if !ok || invalid.Reason != v1alpha1.ReasonInvalidExpression || !strings.HasPrefix(err.Error(), "spec.webhook.body is invalid at column ") {
		t.Errorf("got %v", err)
	}
}

// An Event could otherwise stop the messages of a receiver.
func TestAMessageIsSentAlthoughAnExpressionFails(t *testing.T) {
	var failure string
	n := newFrom(t, webhook.Config{
		URL: "https://a.example", Request: request(`{"second": ${message.events[1].note}}`),
		BodyFailed: func(text string) { failure = text },
	})
	if body := string(notifiers.Render(t, n, example())); body != `{"second": null}` {
		t.Errorf("got %s", body)
	}
	if want := "spec.webhook.body: index out of bounds: 1"; failure != want {
		t.Errorf("the owner sees %q, want %q", failure, want)
	}
}
