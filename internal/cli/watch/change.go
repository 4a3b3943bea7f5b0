package watch

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// Type is what became of an object.
type Type string

// The types of changes, by the names that the watch protocol has for them.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED"
)

// Change is what became of one object.
type Change struct {
	Type Type
	// Time is when it was heard of.
	Time time.Time
	// Existing says of an object that is Added that it was there from the start.
	Existing bool
	// Object is the present state, or the last known one of an object that is
	// gone.
	Object *Object
	// Former is the state before, of an object that is Modified.
	Former *Object
}

// Key names the object: NAMESPACE/NAME, or NAME for one of the cluster.
func (c *Change) Key() string { return c.name().String() }

func (c *Change) name() cache.ObjectName { return cache.MetaObjectToName(c.Object) }
