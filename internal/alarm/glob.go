package alarm

import "unicode/utf8"

// maxGlobText is how much of a text a glob looks at, in bytes. The API server
// bounds a note to as much, but not that of an Event written through core/v1;
// it bounds what the worst pattern takes (BenchmarkGlob).
const maxGlobText = 1024

// glob is a pattern in which "*" is any text, "?" any one character, and every
// other character itself: there is no escape, no class and no alternative, so
// that no pattern is invalid. The empty glob matches everything.
type glob string

// match tells whether the whole text fits. Only the last "*" is ever tried
// again, so the time is at most the product of the lengths.
func (g glob) match(text string) bool { return g.count(text, new(int)) }

// count is match that adds to steps how many it took.
func (g glob) count(text string, steps *int) bool {
	if g == "" {
		return true
	}
	text = text[:min(len(text), maxGlobText)]
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

// runeLen is the length of the first character, in bytes.
func runeLen(s string) int {
	if s[0] < utf8.RuneSelf {
		return 1
	}
	_, size := utf8.DecodeRuneInString(s)
	return size
}
