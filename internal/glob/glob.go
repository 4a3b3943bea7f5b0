// Package glob matches names and texts with the patterns that users write in our kinds.
// Every pattern is valid, and the cost of each is limited, because tenants write them.
package glob

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxText is the part of a text that a Pattern examines, in bytes. It limits the cost of
// the worst pattern (BenchmarkMatch).
const maxText = 1024

// Pattern is a glob. "*" matches any text, "?" any single character, and every other
// character itself. There are no escapes, classes or alternatives, so that every pattern
// is valid. The empty pattern matches everything.
type Pattern string

// Match reports whether the pattern matches the whole text. It backtracks only to the
// last "*", so the time is at most the product of the lengths.
func (g Pattern) Match(text string) bool { return g.MatchCounting(text, new(int)) }

// MatchCounting is like Match, and adds the number of its steps to steps.
func (g Pattern) MatchCounting(text string, steps *int) bool {
	if g == "" {
		return true
	}
	text = text[:min(len(text), maxText)]
	p, t := 0, 0
	star, resume := -1, 0 // the last "*", and where the text after its match starts
	for t < len(text) {
		*steps++
		switch {
		case p < len(g) && g[p] == '*':
			star, resume = p, t
			p++
		case p < len(g) && g[p] == '?':
			t += runeLen(text[t:])
			p++
		case p < len(g) && g[p] == text[t]:
			t++
			p++
		case star >= 0:
			resume += runeLen(text[resume:])
			p, t = star+1, resume
		default:
			return false
		}
	}
	for p < len(g) && g[p] == '*' {
		p++
	}
	return p == len(g)
}

// MatchAny reports whether one of the patterns matches. It returns false without
// patterns.
func MatchAny[P ~string](patterns []P, text string) bool {
	return slices.ContainsFunc(patterns, func(p P) bool { return Pattern(p).Match(text) })
}

// IsLiteral reports whether the pattern matches only itself.
func (g Pattern) IsLiteral() bool { return g != "" && !strings.ContainsAny(string(g), "*?") }

// runeLen returns the length of the first character, in bytes.
func runeLen(s string) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	_, size := utf8.DecodeRuneInString(s)
	return size
}
