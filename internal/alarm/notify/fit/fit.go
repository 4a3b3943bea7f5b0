// Package fit makes untrusted text fit for a sink: cleaned, escaped and no longer
// than the sink takes. Each sink says what it escapes.
package fit

import (
	"strings"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const ellipsis = "…"

// Escape says what a rune is to be replaced with; nil leaves all as they are.
type Escape func(r rune) string

// Text cleans and escapes text, and cuts it so that it has at most limit characters
// after escaping: characters as JavaScript counts them, of which one outside the
// basic plane has two. Few sinks say how they count; this is the strictest. What an
// escape makes of a rune is never cut in two.
func Text(s string, limit int, escape Escape) string {
	s = plaintext.Clean(s)
	var b strings.Builder
	used := 0
	fits := 0 // the length of b up to which an ellipsis still fits
	for _, r := range s {
		text := string(r)
		if escape != nil {
			text = escape(r)
		}
		size := Length(text)
		if used+size > limit {
			return b.String()[:fits] + ellipsis
		}
		b.WriteString(text)
		if used += size; used < limit {
			fits = b.Len()
		}
	}
	return b.String()
}

// Line is Text of a single line.
func Line(s string, limit int, escape Escape) string {
	return Text(plaintext.Line(s), limit, escape)
}

// Length of text in UTF-16 code units, as JavaScript counts characters.
func Length(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
