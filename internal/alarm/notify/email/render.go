package email

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm/message"
	"github.com/bongsu-io/bongsu/internal/alarm/notify"
	"github.com/bongsu-io/bongsu/internal/alarm/notify/fit"
)

// A subject is folded into lines of 78 characters, of which clients show the first
// (RFC 5322, 2.1.1); a text is bounded so that a flood does not fill mailboxes.
const (
	maxSubject = 200
	maxText    = 64000
)

// letter is what is sent but for from whom and to whom.
type letter struct {
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
	Date    time.Time `json:"date"`
	// Group is the key of the group that it is a letter of; empty if it is of none.
	Group string `json:"group,omitempty"`
}

// Render makes a subject, the text, and a line of where it comes from below a
// signature's mark.
func (n *Notifier) Render(m message.Message) ([]byte, error) {
	l := letter{Subject: fit.Line(notify.Headline(&m), maxSubject, nil), Date: m.LastSeen.UTC()}
	if m.Group != nil {
		l.Group = m.Group.Key
	}
	if text := fit.Text(strings.TrimSpace(m.Text), maxText, nil); text != "" {
		l.Text = text + "\n\n"
	}
	l.Text += "-- \n" + fit.Line(notify.Footer(&m), maxSubject, nil) + "\n"
	return json.Marshal(l)
}
