package dryrun

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/message"
)

// Report is what came of trying alarms out. Its JSON form is that of `bongsu alarm test
// -o json`; fields may be added to it.
type Report struct {
	// Since is when the time began whose Events were looked at.
	Since  time.Time     `json:"since"`
	Alarms []AlarmReport `json:"alarms"`
	// Notes say what could not be found out, and why.
	Notes []string `json:"notes,omitempty"`
}

// AlarmReport is what came of one alarm.
type AlarmReport struct {
	Alarm alarm.ID `json:"alarm"`
	// Receivers are those that its messages would be for, as KIND/NAME.
	Receivers []string `json:"receivers"`
	// Suspended: once applied as it is, it sends nothing.
	Suspended bool `json:"suspended,omitempty"`
	// Events is how many there were to look at: of the Alarm's namespace, or of all.
	Events int `json:"events"`
	// Matches are those of them that the alarm has something to say about, the oldest
	// first.
	Matches []Match `json:"matches"`
	// Messages are what would be sent, in that order.
	Messages []Message `json:"messages"`
	Notes    []string  `json:"notes,omitempty"`
}

// What became of a Match.
const (
	// OutcomeSent: it is part of a message.
	OutcomeSent = "Sent"
	// OutcomeHeldBack: it matched, and is not sent: see Match.HeldBackBy.
	OutcomeHeldBack = "HeldBack"
	// OutcomeUnresolved: it cannot be judged, for the object is gone, or may not be read.
	OutcomeUnresolved = "Unresolved"
	// OutcomeFailed: it cannot be judged, for an expression failed.
	OutcomeFailed = "Failed"
)

// Match is an Event that the alarm has something to say about.
type Match struct {
	// Namespace and Name of the Event.
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Reason    string            `json:"reason"`
	Note      string            `json:"note"`
	Regarding message.Reference `json:"regarding"`
	// Count is how often it occurred: all of that is taken to have occurred at At.
	Count int64     `json:"count"`
	At    time.Time `json:"at"`
	// Outcome is Sent, HeldBack, Unresolved or Failed.
	Outcome string `json:"outcome"`
	// HeldBackBy is threshold or mute.
	HeldBackBy string `json:"heldBackBy,omitempty"`
	// Error is the failure of an expression: of the match, or, if it was sent, of the
	// message, which has it in its text.
	Error string `json:"error,omitempty"`
	// Group is what it has in common with others of its group.
	Group []alarm.GroupValue `json:"group,omitempty"`
	// Message is the Number of the message that it is part of.
	Message int `json:"message,omitempty"`
}

// Message is what would be sent.
type Message struct {
	// Number counts from 1.
	Number int `json:"number"`
	// At is when, but for rates and failures of a receiver.
	At time.Time `json:"at"`
	// Message is the body of a webhook: docs/webhook.schema.json.
	Message message.Message `json:"message"`
}
