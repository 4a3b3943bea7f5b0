// Package fit cleans, escapes and truncates untrusted text for a receiver. Each receiver
// type has its own limits and escapes.
package fit

import (
	"strings"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

const ellipsis = "…"

// Escape returns the replacement of a rune. A nil Escape replaces nothing.
type Escape func(r rune) string

// Text cleans and escapes text, and truncates it to limit characters after escaping.
// Characters are counted as in JavaScript, as UTF-16 code units. Few services document
// how they count, and this is the strictest way. Text never cuts an escaped rune in two.
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

// Line is Text for a single line.
func Line(s string, limit int, escape Escape) string {
	return Text(plaintext.Line(s), limit, escape)
}

// Length returns the length of s in UTF-16 code units.
func Length(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
