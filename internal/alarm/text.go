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
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end] + ellipsis
}
