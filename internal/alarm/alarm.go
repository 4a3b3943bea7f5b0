// Package alarm contains the plain types of the packages below it: occurrences, Events,
// regarded objects, and the identities of alarms, groups and messages. Its only logic
// computes keys and compares namespaces.
package alarm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Occurrence is one increase of an Event's count: the Event happened Increase times since
// it was last seen. It can also be a change of an object.
type Occurrence struct {
	// Event is the Event after the increase.
	Event Event
	// Increase is how many times the Event happened; at least 1.
	Increase int64
	// Position is the resourceVersion of the Event after the increase. Positions of one
	// cluster are ordered (KEP-5504: comparable resource versions).
	Position uint64
	// ObservedAt is when the API server stored the increase, by its own clock, in whole
	// seconds.
	ObservedAt time.Time
	// ReadAt is when the operator read it, by its own clock; zero if that does not matter.
	ReadAt time.Time `json:"readAt,omitzero"`
	// Change is set if the occurrence is a change of an object. Event then describes it: its
	// reason is Created, Updated or Deleted, and its note is empty. Position is the
	// resourceVersion of the object, and belongs to the stream of the change.
	Change *Change `json:"-"`
}

// Event is the part of an events.k8s.io/v1 Event that expressions, templates and
// receivers can use.
type Event struct {
	// Namespace, Name and UID identify the Event itself.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`

	Type   string `json:"type"`
	Reason string `json:"reason"`
	Action string `json:"action"`
	Note   string `json:"note"`
	// Count is the number of occurrences so far.
	Count     int64     `json:"count"`
	FirstSeen time.Time `json:"firstSeen"`
	LastSeen  time.Time `json:"lastSeen"`

	Regarding           Reference `json:"regarding"`
	ReportingController string    `json:"reportingController"`
	ReportingInstance   string    `json:"reportingInstance"`
}

// Subject identifies the object that the Event regards. A tenant cannot write an Event with
// the subject of another namespace.
func (e *Event) Subject() string {
	return strings.Join([]string{e.Namespace, e.Regarding.Kind, e.Regarding.Namespace, e.Regarding.Name}, "/")
}

// IsForeign reports whether an Event is in another namespace than the object that it regards, which
// a tenant can write. Kubernetes writes the Events of cluster-scoped objects into default.
func (e *Event) IsForeign() bool {
	of := e.Regarding.Namespace
	return e.Namespace != of && (of != "" || e.Namespace != metav1.NamespaceDefault)
}

// ResetPosition is the position of the source from a restore of etcd until all Events are listed. What
// waited then has it too. It is before every Event: the first revision of etcd is an empty store.
const ResetPosition = 1

// EventCount is the last known count of an Event.
type EventCount struct {
	// UID of the Event.
	UID string
	// Count is the number of its occurrences.
	Count int64
	// Position is the resourceVersion at which it had that count.
	Position uint64
}

// Reference names the object that an Event regards.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	// UID may be empty. In a kubelet's Events about its Node, it is the name of the Node.
	UID       string `json:"uid"`
	FieldPath string `json:"fieldPath"`
}

// Object describes the object that an Event regards. If the object is gone or must not be
// read, only the fields of the Event's own reference are set.
type Object struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   ObjectMeta `json:"metadata"`
	// Owner is the workload that the object belongs to, empty if there is none or it is not known.
	Owner Owner `json:"owner"`
	// Node is set for Nodes only.
	Node Node `json:"node"`
	// Cause is a sentence that says why the object does not work. It is set only for
	// Warnings, and BackOffs that regard a Pod, and only if the cause is known.
	Cause string `json:"cause"`
}

// ObjectMeta is the part of an object's metadata that alarms can use.
type ObjectMeta struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
}

// Node describes a Node beyond its metadata.
type Node struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	// Capacity is what the Node reports, for example cpu: "4", memory: "16Gi".
	Capacity map[string]string `json:"capacity"`
}

// Cluster describes the cluster.
type Cluster struct {
	Name string `json:"name"`
	// Nodes is the number of Nodes.
	Nodes int64 `json:"nodes"`
}

// Context is the data about an occurrence that is not in its Event.
type Context struct {
	Object Object
	// Resolved is true if the object was found, or was known shortly before it was deleted.
	// Otherwise, conditions on its labels cannot be evaluated.
	Resolved bool
	// ObjectUnread says why it is unknown whether the object exists.
	ObjectUnread Unread
	Cluster      Cluster
	// NodesUnread says why Cluster.Nodes is unknown.
	NodesUnread Unread
}

// Unread says why something could not be read, and may be read later. It is a constant
// sentence for a status, without names. It is empty for a read that was answered, also if
// the answer was that there is no such object.
type Unread string

// Kinds of alarms. The kind decides the scope: a ClusterAlarm can match every Event, an
// Alarm only those of its own namespace.
const (
	KindAlarm        = "Alarm"
	KindClusterAlarm = "ClusterAlarm"
)

// GroupValue is one of the values that all occurrences of a group share.
type GroupValue struct {
	// Key is an entry of spec.group.by, for example regarding.name.
	Key   string `json:"key"`
	Value string `json:"value"`
}

// GroupLife is how long a group without occurrences stays open.
const GroupLife = time.Hour

// Key returns the idempotency key of the message that an alarm sends to a receiver about
// an occurrence: 32 hexadecimal digits. It uses only data that another leader also gets
// when it reads the same version of the Event. The position is part of it, because a count
// can fall and reach the same value again.
func Key(receiver, alarmUID string, occ *Occurrence) string {
	identity := fmt.Sprintf("%q %q %q %d %d", receiver, alarmUID, occ.Event.UID, occ.Event.Count, occ.Position)
	return shortHash(identity)
}

// ReceiverID identifies a receiver that exists: KIND/NAMESPACE/NAME@UID. A receiver of the
// same name that is created later has another one. Without a UID, it is the key.
func ReceiverID(key, uid string) string {
	if uid == "" {
		return key
	}
	return key + "@" + uid
}

// ReceiverKey returns the key in the ID of a receiver.
func ReceiverKey(id string) string {
	key, _ := SplitReceiver(id)
	return key
}

// SplitReceiver returns the parts of the ID of a receiver.
func SplitReceiver(id string) (key, uid string) {
	key, uid, _ = strings.Cut(id, "@")
	return key, uid
}

// GroupKey identifies the group of an alarm's occurrences that share these values, with
// 32 hexadecimal digits. Without values, the group contains all occurrences of the alarm.
func GroupKey(alarmUID string, by ...GroupValue) string {
	return shortHash(fmt.Sprintf("%q %q", alarmUID, by))
}

// AcknowledgementKey identifies the message to a receiver that says who acknowledged a group,
// with 32 hexadecimal digits.
func AcknowledgementKey(receiver, group string, token int64) string {
	return shortHash(fmt.Sprintf("acknowledged %q %q %d", receiver, group, token))
}

// TestKey identifies a test message to a receiver, with 32 hexadecimal digits.
func TestKey(receiverUID, value string) string {
	return shortHash(fmt.Sprintf("test %q %q", receiverUID, value))
}

func shortHash(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:16])
}
