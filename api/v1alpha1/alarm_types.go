package v1alpha1

import (
	"time"

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

	// reasons of the Event, for example BackOff. They are case-sensitive. "!" before a reason
	// excludes it. If there is no other entry, any other reason matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self != '!'",message="it excludes nothing: write the text to exclude after the exclamation mark"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('[*?]')",message="a reason is no glob: write each reason in full"
	Reasons []string `json:"reasons,omitempty"`

	// types of the Event: Normal or Warning. If unset, both match.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Types []EventType `json:"types,omitempty"`

	// names are globs for the name of the regarding object. "*" matches any text, "?" one
	// character. "!" before a glob excludes names. If there is no other entry, any other name
	// matches.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self != '!'",message="it excludes nothing: write the text to exclude after the exclamation mark"
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
//
// +kubebuilder:validation:XValidation:rule="has(self.muteUntil) || !has(self.muteFrom) && !has(self.muteReason)",message="muteFrom or muteReason without muteUntil: set muteUntil"
// +kubebuilder:validation:XValidation:rule="(has(self.changes) ? size(self.changes) : 0) + (has(self.states) ? size(self.states) : 0) <= 16",message="changes and states have more than 16 entries together: use several alarms"
// +kubebuilder:validation:XValidation:rule="has(self.match) || !has(self.readObjects)",message="readObjects without match: only Events are about objects that readObjects names"
// +kubebuilder:validation:XValidation:rule="!has(self.muteFrom) || !has(self.muteUntil) || self.muteFrom <= self.muteUntil",message="muteFrom is after muteUntil: swap them"
type AlarmSpec struct {
	// suspend stops the alarm. Events that occur while it is suspended are not sent later.
	// Default: false.
	// +optional
	// +default=false
	Suspend bool `json:"suspend,omitempty"`

	// match selects Events. An Event is selected if it matches one of the entries.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Match []EventMatch `json:"match,omitempty"`

	// changes selects changes of objects. A change is selected if it matches one of the
	// entries.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Changes []ChangeMatch `json:"changes,omitempty"`

	// states selects states of objects that last. A state is selected if it matches one of
	// the entries. Without group, each object is a group of its own, and its messages do not
	// wait. Together, changes and states can have 16 entries.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	States []StateMatch `json:"states,omitempty"`

	// readObjects are resources whose objects the Events in match are about. The operator reads
	// the labels and annotations of these objects for the alarm. You must be allowed to get them,
	// and an administrator must allow the operator to do so. If unset, the alarm knows only
	// objects of kinds that the operator reads for every alarm, such as Pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:XValidation:rule="size(self.apiGroup) != 0 || self.resource != 'secrets'",message="Secrets are never read for Events: use names or note in spec.match"
	ReadObjects []ChangeResource `json:"readObjects,omitempty"`

	// threshold suppresses occurrences until there are enough of them. If group is set,
	// each group is counted on its own. Suppressed occurrences are counted in
	// status.suppressedByThreshold. If unset, every occurrence is sent.
	// +optional
	Threshold *AlarmThreshold `json:"threshold,omitempty"`

	// group sends occurrences that have something in common as one message. If unset, each
	// occurrence is a message.
	// +optional
	Group *AlarmGroup `json:"group,omitempty"`

	// resolve says when the problem that a group is about has ended. The group's last message
	// then says so: it resolves an incident or an alert, and marks a thread. It needs
	// spec.group. If unset, the reason NodeReady of a Node and the reason Recovered resolve
	// groups about one object, if spec.match selects them.
	// +optional
	Resolve *AlarmResolve `json:"resolve,omitempty"`

	// mute contains recurring times when nothing is sent. Occurrences within them are counted
	// in status.suppressedByMute, and not sent later. A state that lasts until the end of a
	// window is sent then. Messages that wait for delivery when a
	// window begins are still delivered, and so are messages that resolve a group.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Mute []MuteWindow `json:"mute,omitempty"`

	// muteUntil is when a mute of the alarm ends. Occurrences before this time are treated as
	// in a window of spec.mute. To end a mute early, set it to the present time:
	// without it, the operator could send occurrences of the mute that it reads again. If
	// unset, or if the time has passed, only spec.mute mutes the alarm.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= timestamp('1000-01-01T00:00:00Z') && self < timestamp('3000-01-01T00:00:00Z')",message="not a time between the years 1000 and 3000: write for example 2026-11-20T19:00:00Z"
	MuteUntil *metav1.Time `json:"muteUntil,omitempty"`

	// muteFrom is when the mute until muteUntil begins. If unset, it includes all
	// occurrences that the operator has not read yet.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= timestamp('1000-01-01T00:00:00Z') && self < timestamp('3000-01-01T00:00:00Z')",message="not a time between the years 1000 and 3000: write for example 2026-11-20T19:00:00Z"
	MuteFrom *metav1.Time `json:"muteFrom,omitempty"`

	// muteReason says why the alarm is muted until muteUntil. The operator ignores it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	MuteReason string `json:"muteReason,omitempty"`

	// acknowledgements silence open groups until they are resolved. Their occurrences are
	// counted, and the message that resolves the group is sent. "kubectl bongsu alarm ack" adds
	// them. Those of groups that have ended have no effect.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +kubebuilder:validation:MaxItems=32
	Acknowledgements []AlarmAcknowledgement `json:"acknowledgements,omitempty"`

	// message contains the templates of a message. If unset, a message contains the reason,
	// the regarding object and the Event's note.
	// +optional
	Message AlarmMessage `json:"message,omitzero"`
}

// MuteTimes returns the times of muteFrom and muteUntil, or zero if they are unset.
func (s *AlarmSpec) MuteTimes() (from, until time.Time) {
	if s.MuteFrom != nil {
		from = s.MuteFrom.Time
	}
	if s.MuteUntil != nil {
		until = s.MuteUntil.Time
	}
	return from, until
}

// AlarmStatus shows whether an alarm or receiver works, and what it has sent. The counts
// are written within 5 seconds of a change. They survive a crash of the operator. If its disk
// is lost, matched can be inexact by some seconds.
type AlarmStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, and Degraded if a single message or Event recently failed. Receivers
	// also have Delivered, which shows whether they got a message.
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

	// suppressedByThreshold is the number of occurrences that matched but were not sent,
	// because spec.threshold was not reached.
	// +optional
	SuppressedByThreshold int64 `json:"suppressedByThreshold,omitempty"`

	// suppressedByMute is the number of occurrences that matched but were not sent, because
	// the alarm was muted.
	// +optional
	SuppressedByMute int64 `json:"suppressedByMute,omitempty"`

	// dropped is the number of occurrences that could not be delivered and were given up.
	// One that was sent to two receivers can count twice.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// unresolved is the number of occurrences that could not be evaluated, because their
	// regarding object no longer exists.
	// +optional
	Unresolved int64 `json:"unresolved,omitempty"`

	// undecided is the number of occurrences that were not sent, because something that the
	// alarm needs could not be read. They wait for 10 minutes, if the outbox has space.
	// +optional
	Undecided int64 `json:"undecided,omitempty"`

	// withoutGroupKey is the number of occurrences that matched and whose object lacks a label
	// or an annotation of spec.group.by. Each such object is a group of its own.
	// +optional
	WithoutGroupKey int64 `json:"withoutGroupKey,omitempty"`

	// resumedTime is when the alarm was resumed after it was suspended. Earlier occurrences
	// are not sent, also if the operator reads them later. It is set only for alarms.
	// +optional
	ResumedTime *metav1.Time `json:"resumedTime,omitempty"`

	// mutedUntil is spec.muteUntil while this mute lasts. It is set only for alarms.
	// +optional
	MutedUntil *metav1.Time `json:"mutedUntil,omitempty"`

	// openGroups are open groups: first those that are acknowledged, then those that occurred
	// last. It is set only for alarms with groups.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=32
	OpenGroups []AlarmOpenGroup `json:"openGroups,omitempty"`

	// openGroupCount is the number of all open groups.
	// +optional
	OpenGroupCount int64 `json:"openGroupCount,omitempty"`

	// lastMatchTime is the time of the last match.
	// +optional
	LastMatchTime *metav1.Time `json:"lastMatchTime,omitempty"`

	// lastDeliveryTime is the last time that a receiver accepted a message.
	// +optional
	LastDeliveryTime *metav1.Time `json:"lastDeliveryTime,omitempty"`

	// nextAttemptTime is when the operator tries again to send to a receiver that fails. It
	// is set only for receivers, and only for pauses of at least 30 seconds. Annotate the
	// receiver to end its pause.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`

	// setAside is the number of messages that a receiver does not accept, although it accepts
	// others. Only later messages about the same objects and groups wait for them. It is set
	// only for receivers.
	// +optional
	SetAside int64 `json:"setAside,omitempty"`

	// handledDrop is the last value of the annotation bongsu.io/drop that was handled.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	HandledDrop string `json:"handledDrop,omitempty"`

	// handledTest is the last value of the annotation bongsu.io/send-test for which a test
	// message was sent, or its SHA-256 if it is longer. It is set only for receivers.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	HandledTest string `json:"handledTest,omitempty"`

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
//
// +kubebuilder:validation:XValidation:rule="has(self.match) || has(self.changes) || has(self.states)",message="the alarm selects nothing: set match, changes or states"
// +kubebuilder:validation:XValidation:rule="!has(self.resolve) || has(self.group)",message="resolve without group: set group, because only groups are resolved"
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
// +kubebuilder:printcolumn:name="LAST-DELIVERY",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="MUTED-UNTIL",type=string,JSONPath=`.status.mutedUntil`
// +kubebuilder:printcolumn:name="MUTE-REASON",type=string,priority=1,JSONPath=`.spec.muteReason`
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
