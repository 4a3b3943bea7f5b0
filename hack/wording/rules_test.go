package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTermsAreFound has a finding and a near miss for each term.
func TestTermsAreFound(t *testing.T) {
	cases := []struct{ bad, good string }{
		{"The Event tells why.", "The hotel is intellectual."},
		{"It hears of Events.", "The hearth is warm."},
		{"It looks at the pod again.", "It looks up the pod, again and again."},
		{"Whoever reads it, and somebody else.", "The person who reads it, and some other body."},
		{"the pod of which it speaks", "one of those which it contains"},
		{"The pod is to be deleted.", "The goal is to become ready."},
		{"It is made anew.", "A new pod is made."},
		{"The reason stands on it.", "The standard is on it."},
		{"A quota stands in the way.", "It works in the way that Kubernetes does."},
		{"It fares well.", "The fare-free welfare."},
		{"It brings this about.", "It brings this: about two."},
		{"It lets it go.", "It lets the goroutine end."},
		{"It takes them off.", "It takes off the label."},
		{"The pod is judged.", "The pod is prejudged."},
		{"This is the house.", "There is room for more in the warehouse."},
		{"Nothing is in it but pods.", "Nothing is in it, but pods may come."},
	}
	if len(cases) != len(terms) {
		t.Fatalf("%d cases for %d terms", len(cases), len(terms))
	}
	for i, tc := range cases {
		if got := problems(tc.bad); len(got) == 0 || !strings.HasSuffix(got[0], "write "+terms[i].instead) {
			t.Errorf("%q: got %q, want %s", tc.bad, got, terms[i].instead)
		}
		if got := problems(tc.good); len(got) > 0 {
			t.Errorf("%q: got %q, want none", tc.good, got)
		}
	}
}

func TestWordingIsChecked(t *testing.T) {
	long := strings.Repeat("word ", 24)
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a term over two lines":             {"the pod of\nwhich", []string{`"of which": write whose, which, that`}},
		"a term in code":                    {"the flag `told`", nil},
		"a term in an identifier":           {"the method toldOf", nil},
		"25 words":                          {long + "word.", nil},
		"26 words":                          {long + "word word.", []string{`a sentence of 26 words ("word word word word word ..."): write at most 25`}},
		"26 words in two sentences":         {long + "word. Word.", nil},
		"code counts as one word":           {long + "`word word`.", nil},
		"a statement that opens with What":  {"It ends. What failed is retried.", []string{`"What" opens a statement: begin with its subject`}},
		"a statement that opens with Of":    {"**Of** these, one fails.", nil},
		"emphasis before a relative word":   {"**Of the pods** one fails.", []string{`"Of" opens a statement: begin with its subject`}},
		"a question":                        {"What failed? (Who knows?)", nil},
		"a word that begins like the list":  {"Whatever fails. Thatch burns.", nil},
		"a fragment in lower case":          {"that it is ready", nil},
		"a causative with a participle":     {"It has the pod checked.", []string{`"has the pod checked.": write ` + causativeInstead}},
		"a causative with an infinitive":    {"to have it wait longer", []string{`"have it wait": write ` + causativeInstead}},
		"an attribute":                      {"It has a fixed size.", nil},
		"an attribute that comes after":     {"It has the label named so.", nil},
		"the perfect tense":                 {"It has been checked, and has checked it.", nil},
		"an object of its own":              {"It has a server in it.", nil},
		"a necessity":                       {"You have to run it.", nil},
		"two findings":                      {"It tells anew.", []string{`"tells": write ` + terms[0].instead, `"anew": write recreated, again`}},
		"the same in the next of sentences": {"It ends. It is told.", []string{`"told": write ` + terms[0].instead}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := problems(tc.text), slices.Clone(tc.want)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A text that breaks the rules of sentences, and contains a word that only identifiers must
// not contain.
func TestTheScopeOfAPassageLimitsTheRules(t *testing.T) {
	text := "What has the pod checked again is told of the ledger " + strings.Repeat("word ", 24)
	for scope, want := range map[scope][]string{
		allRules:  {"told", "has the pod checked", "What", "a sentence of"},
		wordsOnly: {"told"},
		codeWords: {"told", "ledger"},
	} {
		found := check("a.go", passage{lines: []line{{1, text}}, scope: scope})
		if len(found) != len(want) {
			t.Errorf("scope %d: %d findings, want %d: %v", scope, len(found), len(want), found)
		}
		for _, word := range want {
			contains := func(f finding) bool { return strings.Contains(f.problem, word) }
			if !slices.ContainsFunc(found, contains) {
				t.Errorf("scope %d: nothing about %q in %v", scope, word, found)
			}
		}
	}
}

func TestMessagesOpenInLowerCase(t *testing.T) {
	for text, want := range map[string]int{
		"what failed is retried":      1,
		"what failed?":                0,
		" that it is ready":           0, // it continues another message
		"of 3 pods, one is ready":     0, // a number may be printed before it
		"that is no duration: use 5m": 1,
	} {
		found := 0
		for _, p := range messagePassages([]line{{1, text}}) {
			found += len(check("a.go", p))
		}
		if found != want {
			t.Errorf("%q: %d findings, want %d", text, found, want)
		}
	}
}

// problems returns what is wrong with a text in Markdown.
func problems(text string) []string {
	var found []string
	for _, p := range passages(splitLines(text, 1, 1)) {
		for _, f := range check("a.md", p) {
			found = append(found, f.problem)
		}
	}
	return found
}
