// Package plaintext takes out of untrusted text what a terminal or a chat client
// would act on rather than show: control characters, escape sequences,
// directional overrides, invalid UTF-8.
//
// It escapes nothing: markup is the matter of each sink. A Printer is for what commands
// print.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean keeps the text and its line breaks; a tab becomes a space.
func Clean(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))
}

// Line is Clean with each run of white space, line breaks included, made one
// space.
func Line(s string) string {
	return strings.Join(strings.Fields(Clean(s)), " ")
}

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Cut shortens s to at most limit bytes, between two characters. It ends a text that it
// cut with an ellipsis, and returns a copy, so that s can be garbage-collected.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// CutRunes shortens s to at most limit characters, the last of which is an ellipsis if
// it cut anything.
func CutRunes(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	end := 0
	for range limit - 1 {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end] + ellipsis
}

func clean(r rune) rune {
	const drop = -1
	switch {
	case r == '\n', r == '\r', r == '\v', r == '\f', r == '\u0085', r == '\u2028', r == '\u2029':
		return '\n'
	case r == '\t':
		return ' '
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Bidi_Control, r):
		return drop
	}
	return r
}
