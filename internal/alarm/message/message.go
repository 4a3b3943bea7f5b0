// Package message defines the content of the messages that receivers get. It contains the
// fields and their limits, the default texts, and the digests and group messages that
// combine several messages.
package message

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/plaintext"
)

// Version is the version of a Message's JSON form, which webhooks receive.
const Version = "v1"

// MaxListedEvents is the maximum length of Message.Events, which is shorter if the Events
// have long texts. Message.Count counts all occurrences, including those of Events that are
// not listed.
const MaxListedEvents = 50

// Message is the content that a receiver gets. Its JSON form is the documented body of a
// webhook (docs/webhook.schema.json).
type Message struct {
	Version string `json:"version"`
	Cluster string `json:"cluster"`
	// Alarm is the alarm that matched. It is empty in a digest of several alarms.
	Alarm kube.Key `json:"alarm"`
	// Title and Text are plain text. Each notifier escapes them for its receiver.
	Title string `json:"title"`
	Text  string `json:"text"`
	// URLs are the https addresses that the author of the alarm wrote into title and text. Chats show
	// them as links, and no other text.
	URLs []string `json:"urls,omitempty"`
	// Count is the number of occurrences that this message reports. It is 0 if the message only
	// resolves its group.
	Count int64 `json:"count"`
	// Digest is true if this message combines several that a rate limit delayed.
	Digest bool `json:"digest"`
	// Group is the group of this message. It is nil for digests, and for alarms that do
	// not group.
	Group     *Group    `json:"group,omitempty"`
	FirstSeen time.Time `json:"firstSeen"`
	LastSeen  time.Time `json:"lastSeen"`
	// NamespaceLabels are the labels of the namespace that the message is about, if a receiver
	// of the alarm chooses a channel by them. It has no others.
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`
	Events          []Event           `json:"events"`
	// Acknowledged is set in a notice that a user acknowledged the group. It has no Events. Only
	// receivers get it that show it with the messages of the group.
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`
}

// Acknowledgement says who acknowledged a group, and when. Comment can be empty.
type Acknowledgement struct {
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Comment string    `json:"comment,omitempty"`
}

// Group describes the group of a message.
type Group struct {
	// Key identifies the group among all groups of all alarms, with 32 hexadecimal
	// digits. A group that starts again after it was over has the same key.
	Key string `json:"key"`
	// By contains the values that the occurrences share, in the order of spec.group.by.
	// It is empty for the group that collects all occurrences beyond the limit of groups.
	By []alarm.GroupValue `json:"by,omitempty"`
	// Total is the number of occurrences of the group so far. It includes those that a threshold, a
	// mute or an acknowledgement kept from being sent, and none that only resolve the group. Since
	// is when the first was observed.
	Total int64     `json:"total"`
	Since time.Time `json:"since"`
	// First is true if the receiver got no earlier message of this group. A retried
	// message keeps its value.
	First bool `json:"first"`
	// Resolved is true if the newest occurrence says that the problem is over. The next
	// occurrence starts a new group.
	Resolved bool `json:"resolved"`
}

// Event is an Event in a Message.
type Event struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
	// Count is the number of occurrences of the Event that this message reports.
	Count     int64     `json:"count"`
	FirstSeen time.Time `json:"firstSeen"`
	LastSeen  time.Time `json:"lastSeen"`
	Regarding Reference `json:"regarding"`
	// EventNamespace is the namespace of the Event, if it is not that of the object. Its users can
	// have invented the Event.
	EventNamespace      string `json:"eventNamespace,omitempty"`
	Object              Object `json:"object"`
	ReportingController string `json:"reportingController"`
}

// author returns the namespace whose users can have written the Event.
func (e *Event) author() string { return cmp.Or(e.EventNamespace, e.Regarding.Namespace) }

// Reference names the object that an Event regards.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// Object describes the object that an Event regards.
type Object struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Owner is the workload that the object belongs to, if it is known.
	Owner Owner `json:"owner,omitzero"`
	// Cause is the reason why the object does not work, if it is known.
	Cause string `json:"cause,omitempty"`
}

// Owner names a workload in the namespace of an object.
type Owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Part is the message of one occurrence of a group. Its JSON form is like that of a Message, with
// more fields.
type Part struct {
	Message
	// OwnTitle and OwnText mean that the title and the text come from a template of the alarm.
	OwnTitle bool `json:"ownTitle,omitempty"`
	OwnText  bool `json:"ownText,omitempty"`
}

// SetUncounted marks a part that is no occurrence of the problem: it only resolves the group, or a
// time without occurrences does.
func (p *Part) SetUncounted() {
	p.Count = 0
	for i := range p.Events {
		p.Events[i].Count = 0
	}
}

// Encode returns the JSON form of a Message or a Part. It does not escape characters of HTML,
// which would need six bytes each.
func Encode[M Message | Part](m M) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(m)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// OfTest returns the message that the operator sends to a receiver as a test. regarding is
// the receiver.
func OfTest(cluster string, regarding Reference, at time.Time) Message {
	const note = "This is a test: the receiver has the annotation bongsu.io/send-test. Nothing else happened."
	id := kube.Key{Kind: alarm.KindAlarm, Namespace: regarding.Namespace, Name: regarding.Name}
	name := regarding.Name
	if regarding.Namespace == "" {
		id.Kind = alarm.KindClusterAlarm
	} else {
		name = regarding.Namespace + "/" + name
	}
	return Message{
		Version: Version, Cluster: cluster, Alarm: id, Title: regarding.Kind + " " + name + " gets messages", Text: note,
		Count: 1, FirstSeen: at, LastSeen: at,
		Events: []Event{{
			Type: "Normal", Reason: "ReceiverTest", Note: note, Count: 1, FirstSeen: at, LastSeen: at,
			Regarding: regarding, ReportingController: "bongsu",
		}},
	}.AsTest()
}

// AsTest marks a message as a test. It also renames the alarm, so that the receiver does
// not change what belongs to the real alarm, for example an incident.
func (m Message) AsTest() Message {
	m.Title = plaintext.CutRunes("[Test] "+m.Title, MaxTitleLength)
	m.Alarm.Name += "-test"
	return m
}

// Limits of a Message, in characters.
const (
	MaxTitleLength = 150
	MaxTextLength  = 3000
	// MaxFieldLength is the limit of the other texts. It is also the API server's limit
	// for notes, which it does not apply to Events written through core/v1.
	MaxFieldLength = 1024
	// maxFieldsLength is the limit of an object's labels, and of its annotations, in
	// bytes.
	maxFieldsLength = 8 << 10
)
