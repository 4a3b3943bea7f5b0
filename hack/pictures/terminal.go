package main

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// The size of the terminal, in pixels. Each line has the same width per column with every
// font, because its length is set.
const (
	columnWidth = 8
	lineHeight  = 18
	fontSize    = 13
	margin      = 18
	titleHeight = 34
	maxColumns  = 105
)

// The colors are readable on the terminal's own background, which is visible on a light and
// on a dark page.
const terminalHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>A terminal</title>
<style>
text { font: %[3]dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6dbe2; white-space: pre }
.command { fill: #ffffff; font-weight: bold }
.prompt { fill: #7ee787 }
</style>
<rect x="0.5" y="0.5" width="%[4]d" height="%[5]d" rx="8" fill="#20262e" stroke="#5b6675"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/><circle cx="60" cy="18" r="6" fill="#28c840"/>
`

// drawTerminal returns an SVG picture of a terminal with commands and their output. It is as
// wide as the longest line. Lines of more than maxColumns continue in the next line.
func drawTerminal(screen []entry) string {
	var text strings.Builder
	columns, y := 0, titleHeight+lineHeight
	for i, e := range screen {
		if i > 0 {
			y += lineHeight
		}
		for _, l := range append([]string{"$ " + e.command}, wrap(e.output)...) {
			columns = max(columns, utf8.RuneCountInString(l))
			text.WriteString(drawLine(l, y))
			y += lineHeight
		}
	}
	width, height := columns*columnWidth+2*margin, y-lineHeight+margin
	return fmt.Sprintf(terminalHead, width, height, fontSize, width-1, height-1) + text.String() + "</svg>\n"
}

// drawLine returns the text of a line whose baseline is y. A line that begins with "$ " is a
// command.
func drawLine(line string, y int) string {
	shown := strings.TrimLeft(line, " ")
	if shown == "" {
		return ""
	}
	length := utf8.RuneCountInString(shown)
	x := margin + (utf8.RuneCountInString(line)-length)*columnWidth
	content := html.EscapeString(shown)
	if command, ok := strings.CutPrefix(content, "$ "); ok {
		content = `<tspan class="prompt">$ </tspan><tspan class="command">` + command + `</tspan>`
	}
	return fmt.Sprintf("<text x=\"%d\" y=\"%d\" textLength=\"%d\">%s</text>\n", x, y, length*columnWidth, content)
}

// wrap returns the lines of an output. As in a terminal, a longer line than maxColumns is cut.
func wrap(output string) []string {
	var lines []string
	for l := range strings.SplitSeq(strings.TrimRight(output, "\n"), "\n") {
		rest := []rune(strings.TrimRight(l, " "))
		for len(rest) > maxColumns {
			lines = append(lines, string(rest[:maxColumns]))
			rest = rest[maxColumns:]
		}
		lines = append(lines, string(rest))
	}
	return lines
}
