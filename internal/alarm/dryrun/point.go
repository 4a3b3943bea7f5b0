package dryrun

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// Point is the error, and below it the line that it is about with a caret under the
// column, as compilers show it.
func Point(e *match.CompileError) string {
	lines := strings.Split(e.Text, "\n")
	if e.Line < 1 || e.Line > len(lines) {
		return e.Error()
	}
	const indent = "\n    "
	line := visible(strings.TrimSuffix(lines[e.Line-1], "\r"))
	return e.Error() + indent + line + indent + blankAs(line, e.Column-1) + "^"
}

// visible replaces what a terminal would act on, each character by one other: columns
// stay what they are.
func visible(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, line)
}

// blankAs is as wide on a terminal as the first n characters of a line. A tab stays one:
// how wide it is depends on where it is.
func blankAs(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n--; n < 0 {
			break
		}
		switch {
		case r == '\t':
			b.WriteRune(r)
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // drawn upon the one before, or not at all
		default:
			b.WriteString(strings.Repeat(" ", columns(r)))
		}
	}
	return b.String()
}

// columns is how many a character takes (https://www.unicode.org/reports/tr11/).
func columns(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}
