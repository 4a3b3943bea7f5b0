package diagnosis

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// pattern is a regular expression that is compiled when a text first contains one of its literals.
// There are hundreds, which would need several megabytes, and most texts match few. A search for
// literals is also much faster than a regular expression that does not match.
type pattern struct {
	expression string
	parsing    sync.Once
	// literals are texts. Each match contains one of them. There are none if that is not known.
	literals  []string
	compiling sync.Once
	compiled  *regexp.Regexp
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
	return len(p.literals) == 0 || slices.ContainsFunc(p.literals, func(literal string) bool { return strings.Contains(text, literal) })
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
func literalsOf(expression string) []string {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil
	}
	return requiredBy(parsed.Simplify())
}

// requiredBy returns the literals of a part of an expression. It returns none if a match may contain
// no literal, or may differ in case.
func requiredBy(part *syntax.Regexp) []string {
	switch part.Op { //nolint:exhaustive // the others require no literal
	case syntax.OpLiteral:
		if part.Flags&syntax.FoldCase == 0 {
			return []string{string(part.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredBy(part.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range part.Sub {
			if found := requiredBy(sub); shortest(found) > shortest(best) {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
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

// shortest returns the length of the shortest text, or zero.
func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}
