package main

import (
	"fmt"
	"regexp"
	"strings"
)

// maxWords is the length of the longest sentence that is allowed.
const maxWords = 25

// finding is text that breaks a rule.
type finding struct {
	path    string
	line    int
	problem string // the words, and what to write instead
	text    string // the whole sentence, which exceptions refer to
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.problem)
}

// term is a word or a phrase that is not used. In the pattern, a blank stands for any
// white space; case does not matter.
type term struct {
	pattern string
	instead string
}

var terms = []term{
	{`tells?|telling|told`, "reports, shows, emits, logs, notifies"},
	{`hears?|hearing|heard`, "receives, observes, handles"},
	{`look(s|ed|ing)? (at \S+ |at the \S+ )?again`, "enqueues, requeues, retries"},
	{`who(m|so)?ever|somebody|nobody|any(one|body) who`, "you, users, the administrator, a tenant, no one"},
	{`of (which|what|whom)`, "whose, which, that"},
	{`(is|are|was|were) to (be|hold)`, "must be, contains"},
	{`anew`, "recreated, again"},
	{`(stands?|stood|standing) on`, "is in its status, is set on it"},
	{`in the way`, "blocks, prevents"},
	{`fares?|fared|faring|unwell`, "status, unhealthy"},
	{`(brings?|brought|bringing) (it |this |that |them )?about`, "creates or updates, reconciles"},
	{`let(s|ting)? (it |them |go of )?go`, "removes, releases"},
	{`(takes?|took|taken|taking) (it|them) off`, "removes, releases"},
	{`judge(s|d|ment|ments)?|judging|verdicts?`, "evaluated, result"},
	{`the house|(this|that|the|its|their|own|another|other) rooms?`, "codebase, package"},
	{`nothing (is|are|was|were) in \S+ but|nothing but`, "contains only"},
}

// objects are those of a causative: "has it", "had the server", "have every pod".
const objects = `(it|them|him|(the|a|an|its|their|every|each|all|another|somebody|someone) [\w'/-]+( [\w'/-]+)?)`

// A causative with a participle needs an end that shows that the participle is none
// of an attribute: "has a fixed size" is none.
var causatives = []string{
	`(has|have|had|having) ` + objects + ` (looked|told|made|read|sent|done|written|kept|shown|put|run|taken|given|[a-z]{2,}ed)` +
		`(\z|[.,;:)]| (again|anew|at|by|when|until|as|to|into|onto|from|for|in|on|with|once|and|or|that|only|before|after|there)\b)`,
	`(has|have|had|having) ` + objects + ` (act|answer|ask|be|clean|create|delete|fail|forget|happen|leave|look|make|notice|play|post|read|refuse|remove|retry|run|say|send|start|stop|succeed|take|try|use|wait|watch|write)`,
}

const causativeInstead = "enqueues X, reads X again, retriggers X"

// rule finds a pattern.
type rule struct {
	pattern *regexp.Regexp
	instead string
}

var wordRules = compileRules()

func compileRules() []rule {
	var rules []rule
	for _, t := range terms {
		rules = append(rules, newRule(t.pattern, t.instead))
	}
	for _, pattern := range causatives {
		rules = append(rules, newRule(pattern, causativeInstead))
	}
	return rules
}

// newRule matches whole words, of which the first group of the pattern are all.
func newRule(pattern, instead string) rule {
	pattern = strings.ReplaceAll(pattern, " ", `\s+`)
	return rule{regexp.MustCompile(`(?i)(?:^|[^\w-])(` + pattern + `)(?:[^\w-]|$)`), instead}
}

// opening finds a sentence that opens with a relative word. In a label, the word may
// be in lower case.
var (
	opening      = regexp.MustCompile(`^\W*(What|That|Of|Who)\s`)
	labelOpening = regexp.MustCompile(`^\W*(?i:what|that|of|who)\s`)
)

// check returns the findings of one passage.
func check(path string, p passage) []finding {
	var found []finding
	text := p.text()
	for start, sentence := range sentences(text) {
		report := func(offset int, format string, args ...any) {
			found = append(found, finding{path, p.lineAt(start + offset), fmt.Sprintf(format, args...), sentence})
		}
		for _, r := range wordRules {
			for _, at := range r.pattern.FindAllStringSubmatchIndex(sentence, -1) {
				report(at[2], "%q: write %s", oneLine(sentence[at[2]:at[3]]), r.instead)
			}
		}
		if word := openingOf(p, sentence); word != "" {
			report(0, "a sentence opens with %q: name the subject first", word)
		}
		if count := countWords(sentence); count > maxWords {
			report(0, "a sentence of %d words (%q): write at most %d", count, beginning(sentence), maxWords)
		}
	}
	return found
}

// openingOf returns the relative word that opens a statement, or "".
func openingOf(p passage, sentence string) string {
	if strings.HasSuffix(strings.TrimRight(sentence, closers), "?") {
		return ""
	}
	pattern := opening
	if p.label {
		pattern = labelOpening
	}
	return strings.TrimSpace(pattern.FindString(sentence))
}

// beginning returns the first words of a sentence.
func beginning(sentence string) string {
	words := strings.Fields(sentence)
	return strings.Join(words[:min(len(words), 5)], " ") + " ..."
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
