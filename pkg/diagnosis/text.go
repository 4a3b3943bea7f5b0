package diagnosis

import (
	"regexp"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits in bytes: of a sentence (what is wrong, a colon and what to do), which are
// those of the API, and of a text of somebody else's that is read or quoted.
const (
	maxMessage = 700
	maxAdvice  = 320
	maxRead    = 4096
	maxQuoted  = 400

	maxReason    = 64
	maxKind      = 63
	maxName      = 253
	maxContainer = 63
)

// tidy makes of a cause what may be shown and stored: nothing that a terminal would
// act on, and within the limits.
func (c *Cause) sanitize() {
	c.Reason = line(c.Reason, maxReason)
	c.Object = Object{Kind: line(c.Object.Kind, maxKind), Name: line(c.Object.Name, maxName)}
	c.Container = line(c.Container, maxContainer)
	c.Message, c.Advice = line(c.Message, maxMessage), line(c.Advice, maxAdvice)
	c.Count = max(c.Count, 1)
}

// line returns the text as one line of so many bytes at most.
func line(s string, limit int) string {
	return plaintext.Cut(plaintext.Line(plaintext.Cut(s, maxRead)), limit)
}

// noise is what components write beside what they mean to say.
var noise = []struct {
	text *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`rpc error: code = \w+ desc = `), ""},
	{regexp.MustCompile(` ?\(pod: "[^"]*", container: [^)]*\)`), ""},
	{regexp.MustCompile(`\(?"?[a-z0-9.-]+_[a-z0-9-]+\([0-9a-f-]{36}\)"?\)?`), "the pod"},
	{regexp.MustCompile(`dial tcp [0-9a-f.:\[\]]+: `), ""},
	{regexp.MustCompile(` in pod the pod`), ""},
	{regexp.MustCompile(`^Error: `), ""},
}

// plain returns what a component's text says, without its noise.
func stripNoise(text string) string {
	text = line(text, maxRead)
	for _, n := range noise {
		text = n.text.ReplaceAllString(text, n.with)
	}
	return text
}

// quoted returns somebody else's text for a sentence.
func excerpt(text string) string {
	text = plaintext.Cut(text, maxQuoted)
	for len(text) > 0 && (text[len(text)-1] == '.' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	return text
}

// rule is how a text of a component is read. Message and advice may use what the
// expression has caught (${1}).
type rule struct {
	text            *regexp.Regexp
	message, advice string
	transient       bool
}

// reading is what a text says by a rule.
type explanation struct {
	message, advice string
	transient         bool
}

// read returns what the first rule that fits makes of the text.
func match(rules []rule, text string) (explanation, bool) {
	for _, r := range rules {
		at := r.text.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		expand := func(template string) string { return string(r.text.ExpandString(nil, template, text, at)) }
		return explanation{excerpt(expand(r.message)), excerpt(expand(r.advice)), r.transient}, true
	}
	return explanation{}, false
}

// readOr is read, or the text itself with the advice where no rule fits.
func matchOr(rules []rule, text, advice string) explanation {
	if r, ok := match(rules, text); ok {
		return r
	}
	return explanation{message: excerpt(text), advice: advice}
}
