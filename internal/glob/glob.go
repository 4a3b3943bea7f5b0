// Package glob matches names and texts by the patterns that users write in our
// kinds. It is of its own making because no pattern may be invalid, and what one
// costs must be known: tenants write them.
package glob

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxText is how much of a text a Pattern looks at, in bytes. It bounds what the
// worst one takes (BenchmarkMatch).
const maxText = 1024

// Pattern is a glob in which "*" is any text, "?" any one character, and every
// other character itself: there is no escape, no class and no alternative, so
// that no pattern is invalid. The empty one matches everything.
type Pattern string

// Match tells whether the whole text fits. Only the last "*" is ever tried
// again, so the time is at most the product of the lengths.
func (g Pattern) Match(text string) bool { return g.MatchCounting(text, new(int)) }

// Count is Match that adds to steps how many it took.
func (g Pattern) MatchCounting(text string, steps *int) bool {
	if g == "" {
		return true
	}
	text = text[:min(len(text), maxText)]
	p, t := 0, 0
	star, resume := -1, 0 // the last "*", and where in text its rest begins
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

// MatchAny tells whether one of the patterns fits. Of no patterns none does.
func MatchAny[P ~string](patterns []P, text string) bool {
	return slices.ContainsFunc(patterns, func(p P) bool { return Pattern(p).Match(text) })
}

// IsLiteral tells whether the pattern fits nothing but itself.
func (g Pattern) IsLiteral() bool { return g != "" && !strings.ContainsAny(string(g), "*?") }

// runeLen is the length of the first character, in bytes.
func runeLen(s string) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	_, size := utf8.DecodeRuneInString(s)
	return size
}
