package alarm

import "time"

// MessageVersion is the version of Message's JSON form, which webhooks receive.
const MessageVersion = "v1"

// MaxListedEvents bounds Message.Events; Count is always the whole.
const MaxListedEvents = 50

// ID names an alarm.
type ID struct {
	// Kind is Alarm or ClusterAlarm.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Message is what a receiver gets. Its JSON form is the documented body of a
// webhook (docs/webhook.schema.json).
type Message struct {
	Version string `json:"version"`
	Cluster string `json:"cluster"`
	// Alarm is the alarm that matched; of a digest of several alarms, empty.
	Alarm ID `json:"alarm"`
	// Title and Text are plain text, not yet escaped for any sink.
	Title string `json:"title"`
	Text  string `json:"text"`
	// Count is how many occurrences this message stands for.
	Count int64 `json:"count"`
	// Digest says that this stands for several messages, held back by a rate limit.
	Digest    bool           `json:"digest"`
	FirstSeen time.Time      `json:"firstSeen"`
	LastSeen  time.Time      `json:"lastSeen"`
	Events    []MessageEvent `json:"events"`
}

// MessageEvent is one Event of a Message.
type MessageEvent struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
	// Count is how many occurrences of the Event this message stands for.
	Count               int64            `json:"count"`
	FirstSeen           time.Time        `json:"firstSeen"`
	LastSeen            time.Time        `json:"lastSeen"`
	Regarding           MessageReference `json:"regarding"`
	Object              MessageObject    `json:"object"`
	ReportingController string           `json:"reportingController"`
}

// MessageReference names the object that a MessageEvent regards.
type MessageReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// MessageObject is what is told of the regarding object.
type MessageObject struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Cause is why a Pod does not run, if it is known.
	Cause string `json:"cause,omitempty"`
}
