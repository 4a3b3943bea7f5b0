package diagnosis

import (
	"regexp"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Limits in bytes. The first two make a sentence of at most 1,024 bytes, the limit of an
// Event's note. maxRead limits what is read of a foreign text, maxQuoted what is quoted
// of it.
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

// sanitize removes control characters from the texts of a cause and cuts them to their
// limits.
func (c *Cause) sanitize() {
	c.Reason = line(c.Reason, maxReason)
	c.Object = Object{Kind: line(c.Object.Kind, maxKind), Name: line(c.Object.Name, maxName)}
	c.Container = line(c.Container, maxContainer)
	c.Message, c.Advice = line(c.Message, maxMessage), line(c.Advice, maxAdvice)
	c.Count = max(c.Count, 1)
}

// line returns the text as a single line of at most limit bytes.
func line(s string, limit int) string {
	return plaintext.Cut(plaintext.Line(plaintext.Cut(s, maxRead)), limit)
}

// rpcError is what gRPC writes before the text of an error.
var rpcError = regexp.MustCompile(`rpc error: code = \w+ desc = `)

// noise matches other parts of component messages that do not help users.
var noise = []struct {
	text *regexp.Regexp
	with string
}{
	{regexp.MustCompile(` ?\(pod: "[^"]*", container: [^)]*\)`), ""},
	{regexp.MustCompile(`\(?"?[a-z0-9.-]+_[a-z0-9-]+\([0-9a-f-]{36}\)"?\)?`), "the pod"},
	{regexp.MustCompile(`dial tcp [0-9a-f.:\[\]]+: `), ""},
	{regexp.MustCompile(` in pod the pod`), ""},
	{regexp.MustCompile(`^Error: `), ""},
	{regexp.MustCompile(`^(?:failed to create containerd task: |failed to create shim task: |OCI runtime create failed: |runc create failed: |` +
		`unable to start container process: |error during container init: )+`), ""},
	{regexp.MustCompile(`provider "?[\w-]+"?: Forbidden: not usable by user or serviceaccount(?:, )?`), ""},
}

// stripNoise returns the text of a component without its noise.
func stripNoise(text string) string {
	return stripOtherNoise(rpcError.ReplaceAllString(line(text, maxRead), ""))
}

// stripOtherNoise is stripNoise, but keeps the codes of gRPC.
func stripOtherNoise(text string) string {
	text = line(text, maxRead)
	for _, n := range noise {
		text = n.text.ReplaceAllString(text, n.with)
	}
	return text
}

// excerpt shortens a foreign text so that it can be used within a sentence.
func excerpt(text string) string {
	text = plaintext.Cut(text, maxQuoted)
	for len(text) > 0 && (text[len(text)-1] == '.' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	return text
}

// rule maps a text of a component to a message and advice. Both may use the submatches of
// the expression (${1}).
type rule struct {
	text            *regexp.Regexp
	message, advice string
	transient       bool
}

// explanation is the result of a rule.
type explanation struct {
	message, advice string
	transient       bool
}

// match returns the result of the first rule that matches.
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

// matchCodes is match for rules that can match the codes of gRPC. The result contains none.
func matchCodes(rules []rule, text string) (explanation, bool) {
	r, ok := match(rules, stripOtherNoise(text))
	r.message = rpcError.ReplaceAllString(r.message, "")
	return r, ok
}

// matchOr is match with a fallback: the text itself with the given advice.
func matchOr(rules []rule, text, advice string) explanation {
	if r, ok := match(rules, text); ok {
		return r
	}
	return explanation{message: excerpt(text), advice: advice}
}
