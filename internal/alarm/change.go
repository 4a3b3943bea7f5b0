package alarm

import (
	"strings"
	"time"
)

// Resource names a resource of the API server, in one of its versions.
type Resource struct {
	// Group is the API group, empty for the core group.
	Group string `json:"group,omitempty"`
	// Version is the served version in which objects are read. It is empty in what alarms need.
	Version string `json:"version,omitempty"`
	// Resource is the lowercase plural, for example deployments.
	Resource string `json:"resource"`
}

// Stream returns the name of the changes of a resource in all its versions: RESOURCE.GROUP, for
// example deployments.apps, or pods. The changes of a stream have positions of their own,
// because resources can be in different stores of the API server.
func (r Resource) Stream() string {
	return strings.TrimSuffix(r.Resource+"."+r.Group, ".")
}

// Served is how the API server serves a resource.
type Served struct {
	Version, Kind string
	Namespaced    bool
}

// Operation is what happened to an object.
type Operation string

// The operations.
const (
	Create Operation = "Create"
	Update Operation = "Update"
	Delete Operation = "Delete"
)

// Change is a difference between two states of an object. The states contain only the fields
// that alarms name.
type Change struct {
	Resource  Resource
	Operation Operation
	// Object is the present state, or the last one of a deleted object. Old is the state before
	// an Update, else nil. Neither must be changed.
	Object, Old map[string]any
	// Size is about the number of bytes of both states as JSON.
	Size int64
	// Known reports whether the field at a path was kept in both states. If not, it is unknown
	// whether the field changed: an alarm named it for the first time in between.
	Known func(path string) bool
	// Manager is the field manager of the newest write, empty if it is unknown or the object
	// was deleted. Clients choose it freely.
	Manager string
}

// Describe returns the object as alarms on Events see it.
func (c *Change) Describe() Object { return Describe(c.Object) }

// Describe returns an object of the API as alarms on Events see it.
func Describe(object map[string]any) Object {
	text := func(from map[string]any, key string) string {
		value, _ := from[key].(string)
		return value
	}
	meta, _ := object["metadata"].(map[string]any)
	created, _ := time.Parse(time.RFC3339, text(meta, "creationTimestamp")) // zero if it is unknown
	labels := texts(meta["labels"])
	return Object{
		APIVersion: text(object, "apiVersion"), Kind: text(object, "kind"),
		Metadata: ObjectMeta{
			Namespace: text(meta, "namespace"), Name: text(meta, "name"), UID: text(meta, "uid"),
			Labels: labels, Annotations: texts(meta["annotations"]), CreationTimestamp: created,
		},
		Owner: ownerIn(meta["ownerReferences"], labels),
	}
}

// ownerIn returns the owner of an object with these references and labels.
func ownerIn(references any, labels map[string]string) Owner {
	list, _ := references.([]any)
	for _, entry := range list {
		reference := texts(entry)
		if of, _ := entry.(map[string]any); of["controller"] == true {
			return OwnerOf(reference["kind"], reference["name"], labels)
		}
	}
	return Owner{}
}

func texts(value any) map[string]string {
	entries, _ := value.(map[string]any)
	all := make(map[string]string, len(entries))
	for key, value := range entries {
		if text, ok := value.(string); ok {
			all[key] = text
		}
	}
	return all
}
