package message

import (
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// MessageVersion is the version of Message's JSON form, which webhooks receive.
const Version = "v1"

// MaxListedEvents bounds Message.Events; Count is always the whole.
const MaxListedEvents = 50

// Message is what a receiver gets. Its JSON form is the documented body of a
// webhook (docs/webhook.schema.json).
type Message struct {
	Version string `json:"version"`
	Cluster string `json:"cluster"`
	// Alarm is the alarm that matched; of a digest of several alarms, empty.
	Alarm alarm.ID `json:"alarm"`
	// Title and Text are plain text, not yet escaped for any sink.
	Title string `json:"title"`
	Text  string `json:"text"`
	// Count is how many occurrences this message stands for.
	Count int64 `json:"count"`
	// Digest says that this stands for several messages, held back by a rate limit.
	Digest bool `json:"digest"`
	// Group is the group that this is a message of; nil if the alarm does not group,
	// and of a digest.
	Group     *Group    `json:"group,omitempty"`
	FirstSeen time.Time `json:"firstSeen"`
	LastSeen  time.Time `json:"lastSeen"`
	Events    []Event   `json:"events"`
}

// MessageGroup is what a receiver is told of a group besides what is new in it.
type Group struct {
	// Key names the group among all groups of all alarms: 32 hexadecimal digits. What
	// is over and comes again has it again.
	Key string `json:"key"`
	// By is what its occurrences have in common, in the order of spec.group.by. Of a
	// group that takes in what is beyond the bound of groups it is empty.
	By []alarm.GroupValue `json:"by,omitempty"`
	// Total is how many occurrences the group had so far, those of this message
	// included; Since is when the first of them was observed.
	Total int64     `json:"total"`
	Since time.Time `json:"since"`
	// First says that the receiver was sent no message of this group before. A
	// message that is tried again is still the first.
	First bool `json:"first"`
	// Resolved says that what the group is about is over, by its newest occurrence;
	// what comes then begins the group anew.
	Resolved bool `json:"resolved"`
}

// MessageEvent is one Event of a Message.
type Event struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
	// Count is how many occurrences of the Event this message stands for.
	Count               int64     `json:"count"`
	FirstSeen           time.Time `json:"firstSeen"`
	LastSeen            time.Time `json:"lastSeen"`
	Regarding           Reference `json:"regarding"`
	Object              Object    `json:"object"`
	ReportingController string    `json:"reportingController"`
}

// MessageReference names the object that a MessageEvent regards.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// MessageObject is what is told of the regarding object.
type Object struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Cause is why a Pod does not run, if it is known.
	Cause string `json:"cause,omitempty"`
}

// AsTest marks a message as a test. It is of an alarm of another name, so that what a
// receiver makes of an alarm's messages, an incident for example, is not touched by it.
func (m Message) AsTest() Message {
	m.Title = plaintext.CutRunes("[Test] "+m.Title, MaxTitleLength)
	m.Alarm.Name += "-test"
	return m
}
