package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"
)

// payloads are bodies that the notifier for incoming webhooks makes.
const payloads = "../../internal/alarm/notify/slack/testdata"

func TestAChannelShowsTheBlocksOfThePayload(t *testing.T) {
	tests := map[string]struct {
		payload string
		want    []string
	}{
		"a header, a section and a context": {"warning.json", []string{
			"<h1># ops</h1>",
			"<time>6:30 PM</time>",
			`<div class="header"><span>⚠️ shop/web-0: BackOff (Pod)</span></div>`,
			`<div class="section"><span>Back-off restarting failed container` + "\n" + `4 times since 2026-11-20 11:00:00 UTC</span></div>`,
			`<div class="context"><span>prod</span><span>Alarm shop/crashes</span><span>since Nov 20, 2026 11:00:00 AM</span></div>`,
		}},
		"text that looks like markup stays text": {"hostile.json", []string{
			"@here #general &lt;https://evil.example|click&gt; ```block``` &amp;lt; [31mred",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			page, err := slackHTML(receive(t, tc.payload))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %q:\n%s", want, page)
				}
			}
		})
	}
}

func TestEveryPayloadOfTheNotifierCanBeShown(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(payloads, "[^b]*.json")) // those of a bot have another envelope
	if err != nil || len(paths) < 5 {
		t.Fatalf("found %q, %v", paths, err)
	}
	for _, path := range paths {
		if _, err := slackHTML(receive(t, filepath.Base(path))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestABlockOfAnUnknownTypeIsAnError(t *testing.T) {
	if _, err := slackHTML([]post{{blocks: []slack.Block{slack.NewDividerBlock()}}}); err == nil {
		t.Error("no error")
	}
}

func TestTheFirstMessageOfEachAlarmIsChosen(t *testing.T) {
	warning, digest := receive(t, "warning.json")[0], receive(t, "digest.json")[0]
	second := warning
	second.at = second.at.Add(time.Minute)
	got, err := choose([]post{digest, warning, second}, []string{"Alarm shop/crashes"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !got[0].at.Equal(warning.at) {
		t.Errorf("got %d messages, the first of %v; want the one of %v", len(got), got[0].at, warning.at)
	}
	if _, err := choose([]post{digest}, []string{"Alarm shop/crashes"}); err == nil {
		t.Error("no error without a message")
	}
}

func TestTheInboxRefusesABodyWithoutBlocks(t *testing.T) {
	received := &inbox{}
	w := httptest.NewRecorder()
	received.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"text": "no blocks"}`)))
	if diff := cmp.Diff(http.StatusBadRequest, w.Code); diff != "" || len(received.posts) > 0 {
		t.Errorf("%d messages, status: %s", len(received.posts), diff)
	}
}

// receive returns the message of a payload, as the inbox receives it.
func receive(t *testing.T, name string) []post {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(payloads, name))
	if err != nil {
		t.Fatal(err)
	}
	received := &inbox{}
	w := httptest.NewRecorder()
	received.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
	if w.Code != http.StatusOK || len(received.posts) != 1 {
		t.Fatalf("%s: status %d, %d messages", name, w.Code, len(received.posts))
	}
	received.posts[0].at = time.Date(2026, 11, 20, 18, 30, 0, 0, time.UTC)
	return received.posts
}
