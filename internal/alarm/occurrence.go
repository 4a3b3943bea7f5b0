package alarm

import "time"

// Occurrence is one increase of an Event's count: something happened Increase
// times since the Event was last seen.
type Occurrence struct {
	// Event is the Event as it stood after the increase.
	Event Event
	// Increase is how many occurrences this one stands for; at least 1.
	Increase int64
	// Position is the resourceVersion of the Event after the increase. Positions
	// of one cluster are ordered (KEP-5504: comparable resource versions).
	Position uint64
	// ObservedAt is when the API server stored the increase, by its clock, in
	// whole seconds.
	ObservedAt time.Time
}

// Event is what expressions, templates and receivers see of an
// events.k8s.io/v1 Event.
type Event struct {
	// Namespace and Name of the Event itself; UID too.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`

	Type   string `json:"type"`
	Reason string `json:"reason"`
	Action string `json:"action"`
	Note   string `json:"note"`
	// Count is how often it occurred so far.
	Count     int64     `json:"count"`
	FirstSeen time.Time `json:"firstSeen"`
	LastSeen  time.Time `json:"lastSeen"`

	Regarding           Reference `json:"regarding"`
	ReportingController string    `json:"reportingController"`
	ReportingInstance   string    `json:"reportingInstance"`
}

// Reference names the object that an Event regards.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	// UID may be empty, or, for a kubelet's Events of its Node, the node's name.
	UID       string `json:"uid"`
	FieldPath string `json:"fieldPath"`
}

// Object is what is known of the object that an Event regards. Of an object that
// is gone, or may not be read, all but the names of the Event's own reference
// is empty.
type Object struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   ObjectMeta `json:"metadata"`
	// Node is filled for Nodes only.
	Node Node `json:"node"`
	// Cause is why a Pod does not run, as a sentence: of Warnings and BackOffs that
	// regard a Pod, and only if it is known.
	Cause string `json:"cause"`
}

// ObjectMeta is the part of an object's metadata that alarms see.
type ObjectMeta struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
}

// Node is what is told of a Node besides its metadata.
type Node struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	// Capacity as the Node reports it, for example cpu: "4", memory: "16Gi".
	Capacity map[string]string `json:"capacity"`
}

// Cluster is what is told of the cluster.
type Cluster struct {
	Name string `json:"name"`
	// Nodes is the number of Nodes.
	Nodes int64 `json:"nodes"`
}

// Context is what is known about an occurrence beyond its Event.
type Context struct {
	Object Object
	// Resolved says that Object was found; without it, what depends on its labels
	// cannot be judged.
	Resolved bool
	Cluster  Cluster
}
