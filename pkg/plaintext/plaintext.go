// Package plaintext makes untrusted text safe to print: texts of Events, error messages and
// command output. It removes what a terminal or a chat client would interpret: control
// characters, escape sequences, directional overrides and invalid UTF-8.
//
//	fmt.Println(plaintext.Cut(plaintext.Line(event.Message), 200))
//
// It does not escape markup, because each output format has its own. The functions return
// no errors and accept any string.
package plaintext

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns s without unsafe characters. It keeps line breaks, as \n, and replaces tabs
// by spaces.
func Clean(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))
}

// Line returns s cleaned and as a single line: it replaces each run of white space by a
// single space.
func Line(s string) string {
	return strings.Join(strings.Fields(Clean(s)), " ")
}

// ellipsis ends a text that was cut. It has three bytes.
const ellipsis = "…"

// Cut shortens s to at most limit bytes and never splits a character. A cut text ends with
// an ellipsis and is a copy, so that s can be garbage-collected. Limits below three bytes
// return the ellipsis alone.
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

// CutRunes shortens s to at most limit characters. The last character of a cut text is an
// ellipsis.
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

// Printer prints lines until a write fails, so that you can check the error once at the end.
type Printer struct {
	Out io.Writer
	// Err is the error of the first write that failed.
	Err error
}

// Line prints a line with the format of fmt.Fprintf. After an error it does nothing. It does
// not clean the arguments.
func (p *Printer) Line(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.Out, format+"\n", args...)
	}
}
