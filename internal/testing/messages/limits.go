package messages

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// WithinLimits checks the limits that hold for every message.
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
			t.Errorf("not valid UTF-8: %q", s)
		}
		if n := utf8.RuneCountInString(s); n > limit {
			t.Errorf("%d characters, limit %d: %q", n, limit, s)
		}
		if i := strings.IndexFunc(s, forbidden); i >= 0 {
			t.Errorf("character %q at %d of %q", s[i:], i, s)
		}
	}
	if m.Title == "" || strings.Contains(m.Title, "\n") {
		t.Errorf("title is not one line: %q", m.Title)
	}
	if len(m.Events) > message.MaxListedEvents {
		t.Errorf("%d events are listed", len(m.Events))
	}
}

func forbidden(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}
