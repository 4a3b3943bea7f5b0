package glob

import (
	"regexp"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for name, tc := range map[string]struct {
		pattern Pattern
		text    string
		want    bool
	}{
		"empty matches anything":             {"", "web", true},
		"literal":                            {"web", "web", true},
		"literal is the whole text":          {"web", "web-0", false},
		"literal is not a prefix of it":      {"web-0", "web", false},
		"star is any text":                   {"web-*", "web-0", true},
		"star is the empty text":             {"web*", "web", true},
		"star spans lines and slashes":       {"a*z", "a/b\nz", true},
		"two stars are like one":             {"**", "", true},
		"stars around":                       {"*back-off*", "the back-off is", true},
		"backtracking":                       {"*ab*b", "abab", true},
		"end must match":                     {"*.io", "a.io.x", false},
		"question mark is one character":     {"web-?", "web-0", true},
		"question mark is not none":          {"web-?", "web-", false},
		"question mark is not two":           {"web-?", "web-10", false},
		"question mark is a whole character": {"?", "봉", true},
		"star does not split characters":     {"*??", "봉", false},
		"star then characters":               {"*수", "봉수", true},
		"case matters":                       {"Web", "web", false},
		"brackets are themselves":            {"[a-c]", "[a-c]", true},
		"brackets are no class":              {"[a-c]", "b", false},
		"braces are themselves":              {"{a,b}*", "{a,b}c", true},
		"braces are no alternative":          {"{a,b}", "a", false},
		"backslash is itself":                {`\*`, `\x`, true},
		"backslash does not escape":          {`\*`, `*`, false},
		"dollar and dot are themselves":      {"^a.$", "^a.$", true},
		"bytes that are not UTF-8":           {"a?b", "a\xffb", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.pattern.Match(tc.text); got != tc.want {
				t.Errorf("Pattern(%q).Match(%q) = %v", tc.pattern, tc.text, got)
			}
		})
	}
}

func TestMatchExaminesALimitedText(t *testing.T) {
	if !Pattern("a*a").Match(strings.Repeat("a", maxText) + "b") {
		t.Errorf("Match examined the text beyond %d bytes", maxText)
	}
}

// FuzzMatch compares a pattern with the equivalent regular expression.
func FuzzMatch(f *testing.F) {
	f.Add("web-*", "web-0")
	f.Add("*a?b*", "xxaybz")
	f.Add("*??", "봉수")
	f.Add("?*\xff", "\xff\xff")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if pattern == "" || len(text) > maxText {
			return
		}
		pattern, text = strings.ToValidUTF8(pattern, "x"), strings.ToValidUTF8(text, "x")
		quoted := regexp.QuoteMeta(pattern)
		quoted = strings.NewReplacer(`\*`, "(?:.*)", `\?`, ".").Replace(quoted)
		re, err := regexp.Compile(`(?s)\A` + quoted + `\z`)
		if err != nil {
			t.Skip(err) // a pattern that is too large for regexp
		}
		if got, want := Pattern(pattern).Match(text), re.MatchString(text); got != want {
			t.Errorf("Pattern(%q).Match(%q) = %v, want %v", pattern, text, got, want)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for name, tc := range map[string]struct{ pattern, text string }{
		"typical":     {"*back-off*", "Back-off restarting failed container app in pod web-0"},
		"worst":       {"*" + strings.Repeat("a", 254) + "b", strings.Repeat("a", maxText)},
		"worst-stars": {strings.Repeat("*a", 127) + "*b", strings.Repeat("a", maxText)},
		"worst-marks": {"*" + strings.Repeat("?", 254) + "b", strings.Repeat("a", maxText)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Pattern(tc.pattern).Match(tc.text)
			}
		})
	}
}
