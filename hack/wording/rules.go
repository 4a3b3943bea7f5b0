package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxWords is the length of the longest sentence that is allowed.
const maxWords = 25

// finding is text that breaks a rule.
type finding struct {
	path     string
	line     int
	problem  string // what is wrong, and what to write instead
	sentence string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.problem)
}

// term is a word or a phrase that is not used.
type term struct {
	pattern string
	instead string
}

//go:embed terms.txt
var termList string

//go:embed codeterms.txt
var codeTermList string

// terms are not used in any text, and codeTerms not in identifiers of Go.
var terms, codeTerms = parseTerms(termList), parseTerms(codeTermList)

func parseTerms(list string) []term {
	var found []term
	for _, entry := range entries(list) {
		pattern, instead, _ := strings.Cut(entry, " | ")
		found = append(found, term{pattern, instead})
	}
	return found
}

// A causative has an object between "has" and a verb, as in `has the pod checked` and
// `have it run`. A participle needs an end, because it may be an attribute, as in
// `has a fixed size`.
const (
	causative  = `(has|have|had|having) ` + object + ` (` + participle + `|` + infinitive + `)`
	object     = `(it|them|(the|a|an|its|their|every|each|all|another) [\w'/-]+( [\w'/-]+)?)`
	participle = `(done|given|kept|looked|made|put|read|run|sent|shown|taken|written|[a-z]{2,}ed)` +
		`(\z|[.,;:)]| (after|again|and|as|at|before|by|for|from|in|into|on|once|onto|or|that|there|to|until|when|with)\b)`
	infinitive = `(act|answer|ask|be|clean|create|delete|fail|forget|happen|leave|look|make|notice|play|post|read|refuse|` +
		`remove|retry|run|say|send|start|stop|succeed|take|try|use|wait|watch|write)`
	causativeInstead = `the verb itself ("checks X", "enqueues X", "runs X")`
)

// rule is a compiled term.
type rule struct {
	pattern *regexp.Regexp
	instead string
}

var (
	causativeRule = newRule(causative, causativeInstead)
	termRules     = newRules(terms)
	rules         = map[scope][]rule{
		allRules:  append([]rule{causativeRule}, termRules...),
		wordsOnly: termRules,
		codeWords: slices.Concat(termRules, newRules(codeTerms)),
	}
)

func newRules(terms []term) []rule {
	var compiled []rule
	for _, t := range terms {
		compiled = append(compiled, newRule(t.pattern, t.instead))
	}
	return compiled
}

// newRule returns a rule whose first group is what the pattern matches: whole words.
func newRule(pattern, instead string) rule {
	pattern = strings.ReplaceAll(pattern, " ", `\s+`)
	return rule{regexp.MustCompile(`(?i)(?:^|[^\w-])(` + pattern + `)(?:[^\w-]|$)`), instead}
}

// Openings of statements. In messages and names, which begin in lower case, "of" may
// follow a value that is printed before it.
var (
	opening          = regexp.MustCompile(`^\W*(What|That|Of|Who)\s`)
	lowercaseOpening = regexp.MustCompile(`^\W*(what|that|who)\s`)
)

// check returns the findings of one passage.
func check(path string, p passage) []finding {
	var found []finding
	text := p.text()
	masked := mask(text)
	for start, sentence := range sentences(masked) {
		original := text[start : start+len(sentence)]
		report := func(offset int, format string, args ...any) {
			found = append(found, finding{path, p.lineAt(start + offset), fmt.Sprintf(format, args...), original})
		}
		for _, r := range rules[p.scope] {
			for _, at := range r.pattern.FindAllStringSubmatchIndex(sentence, -1) {
				report(at[2], "%q: write %s", oneLine(sentence[at[2]:at[3]]), r.instead)
			}
		}
		if p.scope != allRules {
			continue
		}
		if word := openingOf(sentence, p.lowercase); word != "" {
			report(0, "%q opens a statement: begin with its subject", word)
		}
		if count := countWords(sentence); count > maxWords {
			report(0, "a sentence of %d words (%q): write at most %d", count, beginning(original), maxWords)
		}
	}
	return found
}

// openingOf returns the relative word that opens a statement, or "".
func openingOf(sentence string, lowercase bool) string {
	if strings.HasSuffix(strings.TrimRight(sentence, closers), "?") {
		return ""
	}
	found := opening.FindStringSubmatch(sentence)
	if found == nil && lowercase {
		found = lowercaseOpening.FindStringSubmatch(sentence)
	}
	if found == nil {
		return ""
	}
	return found[1]
}

// beginning returns the first words of a sentence.
func beginning(sentence string) string {
	words := strings.Fields(sentence)
	return strings.Join(words[:min(len(words), 5)], " ") + " ..."
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
