package slack

import (
	"strings"
	"unicode/utf16"

	"github.com/bongsu-io/bongsu/internal/plaintext"
)

const ellipsis = "…"

// entities are the three characters that Slack asks to be escaped in every text
// (https://docs.slack.dev/messaging/formatting-message-text#escaping).
var entities = map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}

// escape makes untrusted text harmless and cuts it so that it has at most limit
// characters after escaping: characters as JavaScript counts them, of which one
// outside the basic plane has two. Slack does not say how it counts; this is the
// strictest. An entity is never cut in two.
func escape(s string, limit int) string {
	s = plaintext.Clean(s)
	var b strings.Builder
	used := 0
	fits := 0 // the length of b up to which an ellipsis still fits
	for _, r := range s {
		text, size := escapeRune(r)
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

// escapeLine is escape of a single line.
func escapeLine(s string, limit int) string { return escape(plaintext.Line(s), limit) }

func escapeRune(r rune) (text string, size int) {
	if entity, ok := entities[r]; ok {
		return entity, len(entity)
	}
	return string(r), utf16.RuneLen(r)
}
