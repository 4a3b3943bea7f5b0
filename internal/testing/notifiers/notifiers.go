// Package notifiers has helpers for the tests of notifiers.
package notifiers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/httppost"
	"github.com/bongsu-io/bongsu/internal/testing/sink"
)

// Client returns a client that can reach all addresses.
func Client(t testing.TB) *httppost.Client {
	t.Helper()
	client := httppost.New(httppost.Config{UserAgent: "bongsu/test"})
	t.Cleanup(client.Close)
	return client
}

// Hook returns the notifier of a chat that posts to a URL.
func Hook(t testing.TB, newHook func(*httppost.Client, string) (*httppost.Hook, error), url string) *httppost.Hook {
	t.Helper()
	hook, err := newHook(Client(t), url)
	if err != nil {
		t.Fatal(err)
	}
	return hook
}

// Render returns the body of a message.
func Render(t testing.TB, n notify.Notifier, m message.Message) []byte {
	t.Helper()
	body, err := n.Render(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Failure is the error that must follow from a server's answer.
type Failure struct {
	Answer sink.Behaviour
	Class  notify.Class
	// Text is a part of the error's text.
	Text       string
	RetryAfter time.Duration
}

// OnStatus returns the failure that must follow from a status and a response body.
func OnStatus(code int, answer string, class notify.Class, text string) Failure {
	return Failure{Answer: sink.Status(code, answer), Class: class, Text: text}
}

// ExpectFailures sends the body once for each failure and checks the error. The error
// must not contain "secret", which is part of the URL of a sink.
func ExpectFailures(t *testing.T, n notify.Notifier, server *sink.Sink, body []byte, failures ...Failure) {
	t.Helper()
	for i, want := range failures {
		server.Script(want.Answer)
		got, ok := errors.AsType[*notify.SendError](n.Send(t.Context(), "key", body))
		if !ok || got.Class != want.Class || !strings.Contains(got.Text, want.Text) || got.RetryAfter != want.RetryAfter {
			t.Errorf("%d: got %+v, want a %s with the text %q", i, got, want.Class, want.Text)
		}
		if ok && strings.Contains(got.Text, "secret") {
			t.Errorf("%d: the error reveals too much: %s", i, got.Text)
		}
	}
}
