package trial

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/bongsu-io/bongsu/internal/alarm/match"
)

// Point returns the text of the error. Below it, like a compiler, it shows the line with a
// caret under the column.
func Point(e *match.CompileError) string {
	lines := strings.Split(e.Text, "\n")
	if e.Line < 1 || e.Line > len(lines) {
		return e.Error()
	}
	const indent = "\n    "
	line := visible(strings.TrimSuffix(lines[e.Line-1], "\r"))
	return e.Error() + indent + line + indent + blankAs(line, e.Column-1) + "^"
}

// visible replaces each character that a terminal would act on by one other, so that the
// columns stay the same.
func visible(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, line)
}

// blankAs returns blanks that are as wide on a terminal as the first n characters of a
// line. It keeps tabs, whose width depends on their column.
func blankAs(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n--; n < 0 {
			break
		}
		switch {
		case r == '\t':
			b.WriteRune(r)
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // these take no column
		default:
			b.WriteString(strings.Repeat(" ", columns(r)))
		}
	}
	return b.String()
}

// columns returns the width of a character on a terminal (https://www.unicode.org/reports/tr11/).
func columns(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}
