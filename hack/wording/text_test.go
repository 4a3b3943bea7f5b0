package main

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestTextIsSplitIntoSentences(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"no text":                            {" \n", nil},
		"no mark at the end":                 {"the pod starts", []string{"the pod starts"}},
		"several marks":                      {"Stop! Why? Because.", []string{"Stop!", "Why?", "Because."}},
		"the next sentence in lower case":    {"It ends. kubectl starts.", []string{"It ends.", "kubectl starts."}},
		"a sentence over two lines":          {"It\nends. Next\none.", []string{"It\nends.", "Next\none."}},
		"a version":                          {"Use Go 1.26 or v1.27.1. Then build.", []string{"Use Go 1.26 or v1.27.1.", "Then build."}},
		"a host and a file":                  {"Ask example.com for go.mod. Then stop.", []string{"Ask example.com for go.mod.", "Then stop."}},
		"e.g. and i.e.":                      {"Use a tool, e.g. Helm, i.e. Helm 3.", []string{"Use a tool, e.g. Helm, i.e. Helm 3."}},
		"etc. within a sentence":             {"Pods, Jobs, etc. are listed.", []string{"Pods, Jobs, etc. are listed."}},
		"etc. at the end":                    {"It lists Pods, etc. The rest is hidden.", []string{"It lists Pods, etc.", "The rest is hidden."}},
		"an ellipsis within a sentence":      {"wait... then stop.", []string{"wait... then stop."}},
		"an ellipsis at the end":             {"Wait... Then stop.", []string{"Wait...", "Then stop."}},
		"an ellipsis that stands alone":      {"Run go test ./... and ... more.", []string{"Run go test ./... and ... more."}},
		"a sentence in parentheses":          {"It ends (here.) Next.", []string{"It ends (here.)", "Next."}},
		"a sentence in quotes":               {`It says "stop." Next.`, []string{`It says "stop."`, "Next."}},
		"emphasis":                           {"**It ends.** Next.", []string{"**It ends.**", "Next."}},
		"a mark that is quoted":              {`Any one is "?" and "!" here.`, []string{`Any one is "?" and "!" here.`}},
		"the number of a step":               {"1. Build it. 2 remain.", []string{"1. Build it.", "2 remain."}},
		"a number at the end":                {"It takes 5. Then it ends.", []string{"It takes 5.", "Then it ends."}},
		"a colon and a semicolon end no one": {"not found: check it; retry.", []string{"not found: check it; retry."}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for start, sentence := range sentences(tc.text) {
				if !strings.HasPrefix(tc.text[start:], sentence) {
					t.Errorf("the offset of %q is not %d", sentence, start)
				}
				got = append(got, sentence)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sentences (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzSentences checks that sentences contain all of a text, in order, except blanks.
func FuzzSentences(f *testing.F) {
	for _, text := range []string{"One. Two?", "e.g. this... And", "\"?\" 1. a", "”.“ ä.", "a.\xff b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for start, sentence := range sentences(text) {
			if start < end || sentence == "" || !strings.HasPrefix(text[start:], sentence) {
				t.Fatalf("invalid sentence %q at %d, after %d", sentence, start, end)
			}
			if strings.TrimFunc(text[end:start], unicode.IsSpace) != "" {
				t.Fatalf("%q is in no sentence", text[end:start])
			}
			end = start + len(sentence)
		}
		if strings.TrimFunc(text[end:], unicode.IsSpace) != "" {
			t.Fatalf("%q is in no sentence", text[end:])
		}
	})
}

func TestCodeAndAddressesCountAsOneWord(t *testing.T) {
	for text, want := range map[string]int{
		"":                                  0,
		"one - two":                         2,
		"run `kubectl get pods` now":        3,
		"run ``a ` b`` now":                 3,
		"see https://example.com/a/b now":   3,
		"see [the guide](docs/a.md) now":    4,
		`see [it](a.md "the whole guide").`: 2,
		"see <https://example.com/?a=b>":    2,
		"<br> a line":                       3,
		"AppService and/or spec.replicas":   3,
	} {
		if got := countWords(mask(text)); got != want {
			t.Errorf("%q has %d words, want %d", text, got, want)
		}
	}
}

func TestMarkdownIsSplitIntoPassages(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"paragraphs":                      {"one\ntwo\n\nthree", []string{"1 one\ntwo", "4 three"}},
		"headings":                        {"# One\n## Two\ntext", []string{"1 One", "2 Two", "3 text"}},
		"an underlined heading":           {"One\n===\ntext", []string{"1 One", "3 text"}},
		"a list":                          {"- one\n  more\n* two\n1. three\n2) four", []string{"1 one\nmore", "3 two", "4 three", "5 four"}},
		"a second paragraph of an item":   {"- one\n\n    more\n\nafter\n\n    code", []string{"1 one", "3 more", "5 after"}},
		"a table":                         {"| a | b |\n|---|:-:|\n| `x|y` | c \\| d |", []string{"1 a", "1 b", "3 `x|y`", "3 c \\| d"}},
		"a code block":                    {"one\n```sh\ntold\n```\ntwo", []string{"1 one", "5 two"}},
		"a code block with another in it": {"````\n```\ntold\n```\n````\ntwo", []string{"6 two"}},
		"a code block by indentation":     {"one\n\n    told\n\n\ttold\n\ntwo", []string{"1 one", "7 two"}},
		"a deeper line of a paragraph":    {"one\n    two", []string{"1 one\ntwo"}},
		"the target of a link":            {"one\n\n[a]: https://example.com", []string{"1 one"}},
		"no dash of a list":               {"a\n-1 is invalid", []string{"1 a\n-1 is invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			checkPassages(t, passages(splitLines(tc.text, 1, 1)), tc.want)
		})
	}
}
