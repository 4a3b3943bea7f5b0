package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventMatch selects Events. An Event matches if it matches every field that is set. It
// matches a list if it matches one of the entries.
type EventMatch struct {
	// kinds of the regarding object, for example Pod or Node. If unset, any kind matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kinds []string `json:"kinds,omitempty"`

	// reasons of the Event, for example BackOff. They are case-sensitive. If unset, any
	// reason matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Reasons []string `json:"reasons,omitempty"`

	// types of the Event: Normal or Warning. If unset, both match.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Types []EventType `json:"types,omitempty"`

	// names are globs for the name of the regarding object. "*" matches any text, "?" one
	// character. If unset, any name matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`

	// note is a glob for the whole text of the Event. If unset, any text matches.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Note string `json:"note,omitempty"`

	// objectSelector selects the regarding object by its labels. An object that no longer
	// exists does not match, and is counted in status.unresolved. If unset, any object
	// matches, whether it exists or not.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// expression is a CEL expression with the variables event, object and cluster. It must
	// return a bool. The operator checks its types and limits its cost. If unset, there is
	// no further condition.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
}

// EventType is the type of an Event.
// +kubebuilder:validation:Enum=Normal;Warning
type EventType string

// The types that an Event may have.
const (
	EventTypeNormal  EventType = "Normal"
	EventTypeWarning EventType = "Warning"
)

// AlarmMessage contains the templates of a message. ${...} contains a CEL expression with
// the variables event, object and cluster. Write $${ for a literal ${.
type AlarmMessage struct {
	// title is the first line. It is cut at 150 characters. If unset, it consists of the
	// reason, and of the kind and name of the regarding object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Title string `json:"title,omitempty"`

	// text is the body. It is cut at 3,000 characters. If unset, it consists of the Event's
	// note, its count and the time of its first occurrence.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Text string `json:"text,omitempty"`
}

// AlarmSpec contains the fields that Alarm and ClusterAlarm share.
type AlarmSpec struct {
	// suspend stops the alarm. Events that occur while it is suspended are not sent later.
	// Default: false.
	// +optional
	// +default=false
	Suspend bool `json:"suspend,omitempty"`

	// match selects the Events. An Event is selected if it matches one of the entries.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Match []EventMatch `json:"match"`

	// threshold suppresses occurrences until there are enough of them. If group is set,
	// each group is counted on its own. Suppressed occurrences are counted in
	// status.suppressed. If unset, every occurrence is sent.
	// +optional
	Threshold *AlarmThreshold `json:"threshold,omitempty"`

	// group sends occurrences that have something in common as one message. If unset, each
	// occurrence is a message.
	// +optional
	Group *AlarmGroup `json:"group,omitempty"`

	// mute contains the times when nothing is sent. Occurrences within them are counted in
	// status.suppressed, and not sent later. Messages that wait for delivery when a window
	// begins are still delivered.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Mute []MuteWindow `json:"mute,omitempty"`

	// message contains the templates of a message. If unset, a message contains the reason,
	// the regarding object and the Event's note.
	// +optional
	Message AlarmMessage `json:"message,omitzero"`
}

// AlarmStatus shows whether an alarm or receiver works, and what it has sent. The counts
// are written within 5 seconds of a change. After a crash of the operator they are
// approximate, unlike the metrics.
type AlarmStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, and Degraded if a single message or Event recently failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	Summary `json:",inline"`

	// matched is the number of occurrences that matched.
	// +optional
	Matched int64 `json:"matched"`

	// delivered is the number of occurrences that receivers accepted. An occurrence that is
	// sent to two receivers counts twice.
	// +optional
	Delivered int64 `json:"delivered"`

	// suppressed is the number of occurrences that matched but were not sent, because of
	// spec.threshold or spec.mute.
	// +optional
	Suppressed int64 `json:"suppressed,omitempty"`

	// dropped is the number of occurrences that could not be delivered and were given up.
	// One that was sent to two receivers can count twice.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// unresolved is the number of occurrences that could not be evaluated, because their
	// regarding object no longer exists.
	// +optional
	Unresolved int64 `json:"unresolved,omitempty"`

	// lastMatchTime is the time of the last match.
	// +optional
	LastMatchTime *metav1.Time `json:"lastMatchTime,omitempty"`

	// lastDeliveryTime is the last time that a receiver accepted a message.
	// +optional
	LastDeliveryTime *metav1.Time `json:"lastDeliveryTime,omitempty"`

	// lastProblemTime is when something last went wrong with a single message or Event.
	// The condition Degraded shows it for fifty minutes.
	// +optional
	LastProblemTime *metav1.Time `json:"lastProblemTime,omitempty"`
}

// ReceiverReference names a receiver of an Alarm.
type ReceiverReference struct {
	// kind is AlarmReceiver, for a receiver in the Alarm's namespace, or
	// ClusterAlarmReceiver, which must allow the Alarm's namespace. Default: AlarmReceiver.
	// +optional
	// +default="AlarmReceiver"
	// +kubebuilder:validation:Enum=AlarmReceiver;ClusterAlarmReceiver
	Kind string `json:"kind,omitempty"`

	// name of the receiver.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// NamespacedAlarmSpec is the spec of an Alarm.
type NamespacedAlarmSpec struct {
	AlarmSpec `json:",inline"`

	// receivers are the receivers of the messages.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Receivers []ReceiverReference `json:"receivers"`
}

// Alarm sends matching Events of its namespace to its receivers.
//
// It selects among the Events of its namespace that regard an object in this namespace.
// For Events of Nodes, use a ClusterAlarm.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=al,categories={bongsu,all}
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="MATCHED",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="DELIVERED",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="LAST",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Alarm struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec NamespacedAlarmSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status AlarmStatus `json:"status,omitempty"`
}

// AlarmList is a list of Alarms.
//
// +kubebuilder:object:root=true
type AlarmList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Alarm `json:"items"`
}
