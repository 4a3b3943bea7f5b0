// Package messages provides sample messages, and checks how notifiers render them.
package messages

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/kube"
)

var update = flag.Bool("update", false, "update the golden files")

// Noon is the last occurrence of the messages.
var Noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// New returns the message of a Warning.
func New(title, text string) message.Message {
	return message.Message{
		Version: message.Version, Cluster: "prod", Alarm: kube.Key{Kind: "Alarm", Namespace: "shop", Name: "crashes"},
		Title: title, Text: text, Count: 4, FirstSeen: Noon.Add(-time.Hour), LastSeen: Noon,
		Events: []message.Event{{
			Type: "Warning", Reason: "BackOff", Count: 4,
			Regarding: message.Reference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "5a8f1c1e"},
		}},
	}
}

// AuthorsURL is the address that the author of the alarm wrote into the message of WithURL.
const AuthorsURL = "https://wiki.example.com/run_books?pod=web-0&x=1"

// WithURL returns a message with an address of its author, which is a link, and markup and addresses
// that are not.
func WithURL() message.Message {
	m := New("title", "Runbook: "+AuthorsURL+".\n@here *bold* https://evil.example.org "+AuthorsURL+".evil.org")
	m.URLs = []string{AuthorsURL}
	return m
}

// Shows checks that the texts of a body contain others, and not some of them.
func Shows(t *testing.T, body []byte, texts, not []string) {
	t.Helper()
	var decoded any
	if err := json.Unmarshal(body, &decoded); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(decoded); err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if !strings.Contains(b.String(), text) {
			t.Errorf("no %s in %s", text, b.String())
		}
	}
	for _, text := range not {
		if strings.Contains(b.String(), text) {
			t.Errorf("%s in %s", text, b.String())
		}
	}
}

// Grouped returns a message of a group. If resolved, it is the message that resolves the
// group and contains a Normal Event.
func Grouped(total int64, resolved bool) message.Message {
	m := New("shop/web-0: BackOff (Pod)", "Back-off restarting failed container")
	if resolved {
		m.Title, m.Text = "Resolved: shop/web-0: Recovered (Pod)", "in force again"
		m.Events[0].Type, m.Events[0].Reason = "Normal", "Recovered"
	}
	m.Text += fmt.Sprintf("\n%d times since 2026-11-20 11:00:00 UTC", total)
	m.Group = &message.Group{
		Key: "0123456789abcdef0123456789abcdef", By: []alarm.GroupValue{{Key: "regarding.name", Value: "web-0"}},
		Total: total, Since: m.FirstSeen, First: total == m.Count, Resolved: resolved,
	}
	return m
}

// Kinds returns one message of each kind, by the name of its golden file.
func Kinds() map[string]message.Message {
	normal := New("node-7: NodeReady (Node)", "Node node-7 status is now: NodeReady")
	normal.Alarm = kube.Key{Kind: "ClusterAlarm", Name: "nodes"}
	normal.Count, normal.FirstSeen, normal.Events[0].Type = 1, Noon, "Normal"
	digest := New("1204 occurrences: 1200 × BackOff Pod and 4 more", "1200 × BackOff Pod: shop/web-0, shop/web-1 and 38 more\n4 × NodeReady Node: node-7")
	digest.Alarm, digest.Digest, digest.Count = kube.Key{}, true, 1204
	return map[string]message.Message{
		"normal":   normal,
		"warning":  New("shop/web-0: BackOff (Pod)", "Back-off restarting failed container\n4 times since 2026-11-20 11:00:00 UTC"),
		"digest":   digest,
		"hostile":  New("<!channel> *bold* `code` & <@U012>", "@here #general <https://evil.example|click> ```block``` &lt; \x1b[31mred\x00 \u202egnp.exe\r\nsecond & last"),
		"empty":    {},
		"group":    Grouped(4, false),
		"resolved": Grouped(9, true),
	}
}

// Long returns a message whose texts all repeat unit until they exceed every limit.
func Long(unit string) message.Message {
	long := strings.Repeat(unit, 20000)
	m := New(long, long)
	m.Cluster, m.Alarm.Name = long, long
	m.Events[0].Reason, m.Events[0].Regarding.Name, m.Events[0].Regarding.Namespace = long, long, long
	return m
}

// Units returns texts that are counted, escaped or cut in different ways.
func Units() []string {
	return []string{"a", "é", "봉", "🔥", "&<>", "*_`[]@everyone ", "word & \n", "👩‍👩‍👧", "\"\\\x00\xff"}
}

// Golden compares JSON with testdata/NAME.json.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	Compare(t, filepath.Join("testdata", name+".json"), indented.Bytes())
}

// Compare compares with a golden file, or writes it with -update.
func Compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (run with -update to accept):\n%s", file, diff)
	}
}

// Renderer returns the body of a message.
type Renderer func(t testing.TB, m message.Message) []byte

// Checker returns an error if the receiver would reject the body.
type Checker func(body []byte) error

// LookAsTheyShould renders a message of each kind, checks it, and compares it with its
// golden file.
func LookAsTheyShould(t *testing.T, render Renderer, check Checker) {
	t.Helper()
	for name, m := range Kinds() {
		t.Run(name, func(t *testing.T) {
			body := render(t, m)
			if err := check(body); err != nil {
				t.Error(err)
			}
			Golden(t, name, body)
		})
	}
}

// KeepLimits renders messages with very long texts and checks them. The texts consist of
// Units, and of the given units.
func KeepLimits(t *testing.T, render Renderer, check Checker, units ...string) {
	t.Helper()
	for _, unit := range append(Units(), units...) {
		if err := check(render(t, Long(unit))); err != nil {
			t.Errorf("a message that repeats %q: %v", unit, err)
		}
	}
}

// Fuzz renders messages with any text and checks them. Add seeds for title, text and
// cluster before.
func Fuzz(f *testing.F, render Renderer, check Checker) {
	f.Helper()
	f.Fuzz(func(t *testing.T, title, text, cluster string) {
		m := New(title, text)
		m.Cluster = cluster
		if err := check(render(t, m)); err != nil {
			t.Error(err)
		}
	})
}

// WithinLimits checks the limits of every message.
func WithinLimits(t *testing.T, m message.Message) {
	t.Helper()
	bounded := map[string]int{m.Title: message.MaxTitleLength, m.Text: message.MaxTextLength, m.Cluster: message.MaxFieldLength}
	for i := range m.Events {
		e := &m.Events[i]
		for _, s := range []string{e.Note, e.Reason, e.Type, e.Regarding.Name, e.Regarding.Kind, e.ReportingController} {
			bounded[s] = max(bounded[s], message.MaxFieldLength)
		}
	}
	for s, limit := range bounded {
		if !utf8.ValidString(s) {
			t.Errorf("text is not valid UTF-8: %q", s)
		}
		if n := utf8.RuneCountInString(s); n > limit {
			t.Errorf("text has %d characters, want at most %d: %q", n, limit, s)
		}
		if i := strings.IndexFunc(s, forbidden); i >= 0 {
			t.Errorf("text contains a control character at %d: %q", i, s)
		}
	}
	if m.Title == "" || strings.Contains(m.Title, "\n") {
		t.Errorf("title = %q, want one line", m.Title)
	}
	if len(m.Events) > message.MaxListedEvents {
		t.Errorf("message lists %d Events, want at most %d", len(m.Events), message.MaxListedEvents)
	}
}

func forbidden(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}
