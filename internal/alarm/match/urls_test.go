package match

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bongsu-io/bongsu/api/v1alpha1"
	"github.com/bongsu-io/bongsu/internal/alarm"
)

func TestOnlyAnAuthorsAddressesBecomeLinks(t *testing.T) {
	const hostile = "a b/../?x=1&y#z@here https://evil.example.com [x](https://evil.example.com)"
	for name, tc := range map[string]struct {
		template, text string // text is empty if it is the template
		urls           []string
	}{
		"an address":             {template: "Runbook: https://wiki.example.com/run_books/a~b?x=1&y=2#part.", urls: []string{"https://wiki.example.com/run_books/a~b?x=1&y=2#part"}},
		"in brackets":            {template: "(https://wiki.example.com)", urls: []string{"https://wiki.example.com"}},
		"two":                    {template: "https://a.example.com https://b.example.com:8443/", urls: []string{"https://a.example.com", "https://b.example.com:8443/"}},
		"a value in the query":   {"https://wiki.example.com/?pod=${event.regarding.name}&x=1 ok", "https://wiki.example.com/?pod=web-0&x=1 ok", []string{"https://wiki.example.com/?pod=web-0&x=1"}},
		"a value in the path":    {"https://wiki.example.com/${event.note}", "https://wiki.example.com/a%20b%2F..%2F%3Fx%3D1%26y%23z%40here%20https%3A%2F%2Fevil.example.com%20%5Bx%5D%28https%3A%2F%2Fevil.example.com%29", []string{"https://wiki.example.com/a%20b%2F..%2F%3Fx%3D1%26y%23z%40here%20https%3A%2F%2Fevil.example.com%20%5Bx%5D%28https%3A%2F%2Fevil.example.com%29"}},
		"a value as the host":    {"https://${event.regarding.name}/x", "https://web-0/x", nil},
		"a value in the host":    {"https://wiki.example.co${event.regarding.name}/x", "https://wiki.example.coweb-0/x", nil},
		"the address of a value": {"${event.note}", hostile, nil},
		"a value after it":       {"https://wiki.example.com/ ${event.note}", "https://wiki.example.com/ " + hostile, []string{"https://wiki.example.com/"}},
		"a user":                 {template: "https://user@wiki.example.com/ https://wiki.example.com/@here"},
		"another scheme":         {template: "http://wiki.example.com ftp://wiki.example.com javascript:alert(1)"},
		"markup":                 {template: "[x](https://wiki.example.com) <https://b.example.com|text>", urls: []string{"https://wiki.example.com", "https://b.example.com"}},
		"markup in it":           {template: "https://wiki.example.com/*a*[b](c)"},
		"too long":               {template: "https://wiki.example.com/" + strings.Repeat("a", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			def := clusterAlarm(v1alpha1.EventMatch{})
			def.Spec.Message = v1alpha1.AlarmMessage{Title: "title", Text: tc.template}
			occ := podOccurrence()
			occ.Event.Note = hostile
			m, err := mustCompile(t, def).Render(t.Context(), occ, &alarm.Context{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.text == "" {
				tc.text = tc.template
			}
			if diff := cmp.Diff(tc.text, m.Text); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.urls, m.URLs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The error of an expression can contain a value.
func TestAnErrorInATextIsNoLink(t *testing.T) {
	def := clusterAlarm(v1alpha1.EventMatch{})
	def.Spec.Message.Text = `https://a.example.com/${object.metadata.labels["https://evil.example.com"]}`
	m, err := mustCompile(t, def).Render(t.Context(), podOccurrence(), &alarm.Context{})
	if diff := cmp.Diff([]string{"https://a.example.com/"}, m.URLs); diff != "" || err == nil {
		t.Errorf("%v: %s: %s", err, m.Text, diff)
	}
}
