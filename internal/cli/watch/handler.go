package watch

import (
	"slices"
	"strings"

	"k8s.io/client-go/tools/cache"
)

var _ cache.ResourceEventHandler = (*watcher)(nil)

// OnAdd implements cache.ResourceEventHandler.
func (w *watcher) OnAdd(o any, existing bool) {
	c := w.change(Added, object(o))
	if c.Existing = existing; existing {
		w.existing = append(w.existing, c)
		return
	}
	w.changes.put(c)
}

// OnUpdate implements cache.ResourceEventHandler. A list, after a disconnect, tells
// of every object again, whether it has changed or not; and of one that was deleted
// and created anew meanwhile as if it were the same.
func (w *watcher) OnUpdate(from, to any) {
	former, present := object(from), object(to)
	switch {
	case former.GetUID() != present.GetUID():
		w.changes.put(w.change(Deleted, former))
		w.changes.put(w.change(Added, present))
	case former.GetResourceVersion() != present.GetResourceVersion():
		c := w.change(Modified, present)
		c.Former = former
		w.changes.put(c)
	}
}

// OnDelete implements cache.ResourceEventHandler. Of an object that was deleted
// during a disconnect there is a tombstone, with the last state that was seen.
func (w *watcher) OnDelete(o any) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	w.changes.put(w.change(Deleted, object(o)))
}

func (w *watcher) change(t Type, o *Object) *Change {
	return &Change{Type: t, Time: w.config.Clock.Now(), Object: o}
}

// object asserts what the redactor has seen to: nothing else is in the cache.
func object(o any) *Object { return o.(*Object) }

// existing are the changes that tell what is there from the start. They are heard
// of in no order.
type existing []*Change

func (e existing) sorted() []*Change {
	return slices.SortedFunc(slices.Values(e), func(a, b *Change) int { return strings.Compare(a.Key(), b.Key()) })
}
