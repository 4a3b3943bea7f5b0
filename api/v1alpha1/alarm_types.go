package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventMatch selects Events. All given fields must match; within a list any
// entry may.
type EventMatch struct {
	// kinds of the object that the Event regards, for example Pod or Node.
	// Default: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kinds []string `json:"kinds,omitempty"`

	// reasons of the Event, verbatim, for example BackOff. Default: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Reasons []string `json:"reasons,omitempty"`

	// types of the Event. Default: both.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Types []EventType `json:"types,omitempty"`

	// names are globs on the name of the object that the Event regards. "*" is
	// any text, "?" any one character. Default: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`

	// note is a glob on the whole text of the Event. Default: any.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Note string `json:"note,omitempty"`

	// objectSelector selects by the labels of the object that the Event regards.
	// An object that is gone does not match and is counted in status.unresolved.
	// Default: any object, also one that is gone.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// expression is CEL over event, object and cluster; it must yield a bool.
	// It is type-checked and its cost bounded when the alarm is accepted.
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

// AlarmMessage says how a message reads. ${...} holds CEL over event, object
// and cluster; $${ is a literal ${.
type AlarmMessage struct {
	// title is the first line. Default: reason, kind and name of the object.
	// At most 150 characters are sent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Title string `json:"title,omitempty"`

	// text is the body. Default: the Event's note, how often and since when.
	// At most 3,000 characters are sent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Text string `json:"text,omitempty"`
}

// AlarmSpec is what Alarm and ClusterAlarm have in common.
type AlarmSpec struct {
	// suspend stops the alarm: what happens meanwhile is not sent later.
	// Default: false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// match selects the Events: one that matches any entry.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Match []EventMatch `json:"match"`

	// threshold holds what matches back until there is enough of it, in each group by
	// itself if there is a group; what is not
	// sent is counted in status.suppressed. Default: every occurrence is sent.
	// +optional
	Threshold *AlarmThreshold `json:"threshold,omitempty"`

	// group puts what has something in common into one message. Default: every
	// occurrence is a message of its own.
	// +optional
	Group *AlarmGroup `json:"group,omitempty"`

	// mute are the times at which nothing is sent: what happens in any of them is
	// counted in status.suppressed, and not sent later. What is on its way when one
	// begins still arrives. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Mute []MuteWindow `json:"mute,omitempty"`

	// message says how a message reads. Default: a good one, which holds the
	// reason verbatim.
	// +optional
	Message AlarmMessage `json:"message,omitzero"`
}

// AlarmStatus tells whether an alarm or receiver is in force and what it did.
// The counts are written within 5 seconds of a change and are approximate after
// a crash; the metrics are exact.
type AlarmStatus struct {
	// observedGeneration is the generation that conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, and Degraded while something went wrong lately.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	Summary `json:",inline"`

	// matched counts the occurrences that matched.
	// +optional
	Matched int64 `json:"matched"`

	// delivered counts the occurrences that a receiver accepted; one that goes to
	// two receivers counts twice.
	// +optional
	Delivered int64 `json:"delivered"`

	// suppressed counts the occurrences that matched and were not sent, because they
	// did not reach spec.threshold or fell into spec.mute.
	// +optional
	Suppressed int64 `json:"suppressed,omitempty"`

	// dropped counts the occurrences that were given up, per receiver.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// unresolved counts the occurrences that could not be judged because the
	// object that they regard is gone.
	// +optional
	Unresolved int64 `json:"unresolved,omitempty"`

	// lastMatchTime is when the last occurrence matched.
	// +optional
	LastMatchTime *metav1.Time `json:"lastMatchTime,omitempty"`

	// lastDeliveryTime is when a receiver last accepted a message.
	// +optional
	LastDeliveryTime *metav1.Time `json:"lastDeliveryTime,omitempty"`

	// lastProblemTime is when something last went wrong with a single message or Event.
	// The condition Degraded shows it for fifty minutes.
	// +optional
	LastProblemTime *metav1.Time `json:"lastProblemTime,omitempty"`
}

// ReceiverReference names a receiver of an Alarm.
type ReceiverReference struct {
	// kind is AlarmReceiver, in the Alarm's own namespace (the default), or
	// ClusterAlarmReceiver, which must allow that namespace.
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

// NamespacedAlarmSpec is what is asked of an Alarm.
type NamespacedAlarmSpec struct {
	AlarmSpec `json:",inline"`

	// receivers get the messages.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Receivers []ReceiverReference `json:"receivers"`
}

// Alarm sends the Events of its own namespace that match to its receivers.
//
// It sees only Events that are stored in its namespace and regard an object of
// its namespace; Events of Nodes are for ClusterAlarms.
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

	// spec is what is asked for.
	// +required
	Spec NamespacedAlarmSpec `json:"spec"`
	// status is what is.
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
