package diagnosis

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// pattern is a regular expression that is compiled when a text first contains one of its literals.
// There are hundreds, which would need several megabytes, and most texts match few. A search for
// literals is also much faster than a regular expression that does not match.
type pattern struct {
	expression string
	parsing    sync.Once
	// literals are texts. Each match contains one of them. There are none if that is not known.
	literals  []literal
	compiling sync.Once
	compiled  *regexp.Regexp
}

// literal is a text that a pattern requires. If fold is set, it is in lower case, and its case does not
// matter.
type literal struct {
	text string
	fold bool
}

// in reports whether a text contains the literal. Letters outside of ASCII can be the other case of one
// in ASCII, so that it does not rule out a text with them.
func (l literal) in(text string) bool {
	if !l.fold {
		return strings.Contains(text, l.text)
	}
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf || lower(text[i]) == l.text[0] && hasFolded(text[i:], l.text) {
			return true
		}
	}
	return false
}

// hasFolded reports whether a text begins with another one, which is in lower case.
func hasFolded(text, begin string) bool {
	if len(text) < len(begin) {
		return false
	}
	for i := range len(begin) {
		if lower(text[i]) != begin[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c - 'A' + 'a'
	}
	return c
}

// compile returns a pattern. Like regexp.MustCompile, it is for constants: the first use of an invalid one panics.
func compile(expression string) *pattern { return &pattern{expression: expression} }

func (p *pattern) String() string { return p.expression }

// regexp returns the regular expression.
func (p *pattern) regexp() *regexp.Regexp {
	p.compiling.Do(func() { p.compiled = regexp.MustCompile(p.expression) })
	return p.compiled
}

// mayMatch reports whether a text contains a literal that each match contains.
func (p *pattern) mayMatch(text string) bool {
	p.parsing.Do(func() { p.literals = literalsOf(p.expression) })
	return len(p.literals) == 0 || slices.ContainsFunc(p.literals, func(l literal) bool { return l.in(text) })
}

// The methods of regexp.Regexp that the package uses.

func (p *pattern) MatchString(text string) bool {
	return p.mayMatch(text) && p.regexp().MatchString(text)
}

func (p *pattern) FindString(text string) string {
	if !p.mayMatch(text) {
		return ""
	}
	return p.regexp().FindString(text)
}

func (p *pattern) FindStringIndex(text string) []int {
	if !p.mayMatch(text) {
		return nil
	}
	return p.regexp().FindStringIndex(text)
}

func (p *pattern) FindStringSubmatch(text string) []string {
	if !p.mayMatch(text) {
		return nil
	}
	return p.regexp().FindStringSubmatch(text)
}

func (p *pattern) FindStringSubmatchIndex(text string) []int {
	if !p.mayMatch(text) {
		return nil
	}
	return p.regexp().FindStringSubmatchIndex(text)
}

func (p *pattern) FindAllStringSubmatch(text string, n int) [][]string {
	if !p.mayMatch(text) {
		return nil
	}
	return p.regexp().FindAllStringSubmatch(text, n)
}

func (p *pattern) FindAllStringSubmatchIndex(text string, n int) [][]int {
	if !p.mayMatch(text) {
		return nil
	}
	return p.regexp().FindAllStringSubmatchIndex(text, n)
}

func (p *pattern) ReplaceAllString(text, replacement string) string {
	if !p.mayMatch(text) {
		return text
	}
	return p.regexp().ReplaceAllString(text, replacement)
}

func (p *pattern) ReplaceAllLiteralString(text, replacement string) string {
	if !p.mayMatch(text) {
		return text
	}
	return p.regexp().ReplaceAllLiteralString(text, replacement)
}

func (p *pattern) ExpandString(expanded []byte, template, text string, match []int) []byte {
	return p.regexp().ExpandString(expanded, template, text, match)
}

// literalsOf returns texts. Each match of an expression contains one of them.
func literalsOf(expression string) []literal {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil
	}
	return requiredBy(parsed.Simplify())
}

// requiredBy returns the literals of a part of an expression. It returns none if a match may contain
// no literal.
func requiredBy(part *syntax.Regexp) []literal {
	switch part.Op { //nolint:exhaustive // the others require no literal
	case syntax.OpLiteral:
		text, fold := string(part.Rune), part.Flags&syntax.FoldCase != 0
		if fold {
			text = strings.ToLower(text)
		}
		return []literal{{text, fold}}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredBy(part.Sub[0])
	case syntax.OpConcat:
		var best []literal
		for _, sub := range part.Sub {
			if found := requiredBy(sub); shortest(found) > shortest(best) {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all []literal
		for _, sub := range part.Sub {
			found := requiredBy(sub)
			if len(found) == 0 {
				return nil
			}
			all = append(all, found...)
		}
		return all
	}
	return nil
}

// shortest returns the length of the shortest literal, or zero.
func shortest(literals []literal) int {
	if len(literals) == 0 {
		return 0
	}
	return len(slices.MinFunc(literals, func(a, b literal) int { return len(a.text) - len(b.text) }).text)
}
