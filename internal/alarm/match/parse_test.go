package match

import (
	"strings"
	"testing"

	"github.com/bongsu-io/bongsu/internal/testing/messages"

	"github.com/google/go-cmp/cmp"
)

func literalSpan(text string) span { return span{text: text} }

func expressionSpan(text string, offset int) span {
	return span{text: text, offset: offset, isExpression: true}
}

func TestParseTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []span
	}{
		"literal":                {"a $ b } {", []span{literalSpan("a $ b } {")}},
		"expression":             {"a ${b} c", []span{literalSpan("a "), expressionSpan("b", 4), literalSpan(" c")}},
		"two side by side":       {"${a}${b}", []span{expressionSpan("a", 2), expressionSpan("b", 6)}},
		"literal dollar brace":   {"$${a}", []span{literalSpan("${a}")}},
		"dollar before literal":  {"$$${a}", []span{literalSpan("$${a}")}},
		"dollar at the end":      {"a$", []span{literalSpan("a$")}},
		"map":                    {"${ {'a': {1: 2}}['a'] }", []span{expressionSpan(" {'a': {1: 2}}['a'] ", 2)}},
		"brace in a string":      {`${"}"}`, []span{expressionSpan(`"}"`, 2)}},
		"brace in single quotes": {`${'}' + '{'}`, []span{expressionSpan(`'}' + '{'`, 2)}},
		"escaped quote":          {`${"\"}"}`, []span{expressionSpan(`"\"}"`, 2)}},
		"escaped backslash":      {`${"\\"}`, []span{expressionSpan(`"\\"`, 2)}},
		"raw string":             {`${r"\"}`, []span{expressionSpan(`r"\"`, 2)}},
		"raw bytes":              {`${bR'\'}`, []span{expressionSpan(`bR'\'`, 2)}},
		"a word is not a prefix": {`${car"\"}"}`, []span{expressionSpan(`car"\"}"`, 2)}},
		"triple quotes":          {"${\"\"\"a\"}\n'\"\"\"}", []span{expressionSpan("\"\"\"a\"}\n'\"\"\"", 2)}},
		"triple single quotes":   {`${'''}''}'''}`, []span{expressionSpan(`'''}''}'''`, 2)}},
		"empty string":           {`${""}`, []span{expressionSpan(`""`, 2)}},
		"comment":                {"${a // }'\n}", []span{expressionSpan("a // }'\n", 2)}},
		"expression in a string": {`${"${a}"}`, []span{expressionSpan(`"${a}"`, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, failure := parseTemplate(tc.text)
			if failure != nil {
				t.Fatalf("failed at %d: %s", failure.offset, failure.message)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(span{})); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseTemplateFailsAtTheOffset(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"no closing brace":              {"ab ${c", 3},
		"no closing brace of the outer": {"${ {1: 2}", 0},
		"string without an end":         {`a${b + "c}`, 7},
		"string over a line end":        {"${'a\n'}", 2},
		"raw string without an end":     {`${r'\}`, 3},
		"triple quotes without an end":  {`${"""a""}`, 2},
		"escape at the end":             {`${"\`, 2},
		"comment to the end":            {"${a // }", 0},
		"empty":                         {"a${}", 3},
		"blank":                         {"a${ \n}", 3},
	} {
		t.Run(name, func(t *testing.T) {
			spans, failure := parseTemplate(tc.text)
			if failure == nil {
				t.Fatalf("got %v, want a failure", spans)
			}
			if failure.offset != tc.want {
				t.Errorf("failed at %d, want %d", failure.offset, tc.want)
			}
		})
	}
}

// FuzzTemplate: whatever the text, parsing ends, the offsets are true, and
// compiling gives an alarm or a CompileError.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"a ${event.reason} b", "$${", `${"}"}`, "${r'\\'}", "${ {1:2} }", "${a // }\n}", "${'''}'''}", "${"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spans, failure := parseTemplate(text)
		if failure != nil {
			if failure.offset < 0 || failure.offset >= len(text) {
				t.Errorf("failed at %d of %d bytes", failure.offset, len(text))
			}
			return
		}
		for _, s := range spans {
			if s.isExpression && !strings.HasPrefix(text[s.offset:], s.text+"}") {
				t.Errorf("expression %q is not at %d", s.text, s.offset)
			}
		}
		if len(text) > 4096 { // the API's limit
			return
		}
		def := clusterAlarm()
		def.Spec.Message.Text = text
		a, err := compile(t, def)
		if err != nil {
			return
		}
		message, _ := a.Render(t.Context(), podOccurrence(), podContext())
		messages.WithinLimits(t, message)
	})
}
