package slack

import "github.com/bongsu-io/bongsu/internal/alarm/notify/fit"

// entities are the three characters that Slack asks to be escaped in every text
// (https://docs.slack.dev/messaging/formatting-message-text#escaping).
var entities = map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}

func entity(r rune) string {
	if entity, ok := entities[r]; ok {
		return entity
	}
	return string(r)
}

func escape(s string, limit int) string { return fit.Text(s, limit, entity) }

func escapeLine(s string, limit int) string { return fit.Line(s, limit, entity) }
