package objects

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/fields"
)

// Compare returns the change from one state of an object to another as the source yields it,
// in the fields of shape. A nil state means that the object did not exist. changed is false if
// the states do not differ in these fields: the source then yields nothing.
func Compare(resource alarm.Resource, kind schema.GroupVersionKind, before, after map[string]any, shape fields.Shape, at time.Time) (occ alarm.Occurrence, changed bool, err error) {
	filter := fields.NewFilter(shape)
	c := alarm.Change{Resource: resource, Operation: alarm.Update, Known: inBoth(filter, filter)}
	switch {
	case after == nil:
		c.Operation, c.Object = alarm.Delete, filter.Project(before)
	case before == nil:
		c.Operation, c.Object = alarm.Create, filter.Project(after)
	default:
		c.Old, c.Object = filter.Project(before), filter.Project(after)
	}
	if changed = true; c.Old != nil {
		if changed, err = differ(c.Old, c.Object, filter, filter); err != nil {
			return alarm.Occurrence{}, false, err
		}
	}
	c.Manager, _ = writeOf(after, &c, filter, filter)
	return occurrenceOf(&c, kind, 0, at), changed, nil
}
