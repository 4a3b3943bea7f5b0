package alarm

import "unicode/utf8"

// ellipsis ends a text that was cut.
const ellipsis = "…"

// cut shortens to at most limit characters, the last then being an ellipsis.
func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	end := 0
	for range limit - 1 {
		end += runeLen(s[end:])
	}
	return s[:end] + ellipsis
}
