// Package eventcache keeps the latest Events of workloads for their diagnosis, because
// many causes appear only in Events.
//
// It gets new Events from the stream that also serves alarms. It asks the API server only
// for the Events from before an object was followed. It keeps a limited number of Events
// for each workload, and only those that the diagnosis reads.
package eventcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/source"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	// maxEvents is the number of Events that are kept for a workload.
	maxEvents = 32
	// keepFor is how long an Event is kept. The API server has the same default.
	keepFor = time.Hour
	// maxListed is the number of earlier Events that are read for an object, and maxListedBytes
	// limits the list. A tenant can create Events that are almost as large as a request.
	maxListed      = 500
	maxListedBytes = 2 << 20
)

// namespacedObject names an object across namespaces.
type namespacedObject struct {
	namespace string
	diagnosis.Object
}

// Cache keeps Events. It is safe for concurrent use.
type Cache struct {
	reader client.Reader
	clock  clock.PassiveClock
	notify func(workload types.NamespacedName)

	mu        sync.Mutex
	workloads map[types.NamespacedName]*workload
	// followers are the workloads that use an object. Several can use the same claim.
	followers map[namespacedObject][]types.NamespacedName
}

// workload is a workload whose Events are kept.
type workload struct {
	objects []diagnosis.Object
	events  map[types.UID]diagnosis.Event // by the UID of the Event
}

// New returns an empty Cache. It reads earlier Events from reader, the API server, whose responses
// [kube.WithResponseLimit] must limit. It calls notify for a workload when one of its Events was stored.
func New(reader client.Reader, clk clock.PassiveClock, notify func(types.NamespacedName)) *Cache {
	return &Cache{
		reader: reader, clock: clk, notify: notify,
		workloads: map[types.NamespacedName]*workload{}, followers: map[namespacedObject][]types.NamespacedName{},
	}
}

// Follow keeps the Events of these objects, and no longer those of the objects in the
// last call. It first reads the earlier Events of objects that were not followed before.
func (c *Cache) Follow(ctx context.Context, name types.NamespacedName, objects ...diagnosis.Object) error {
	for _, added := range c.follow(name, objects) {
		if err := c.read(ctx, name, added); err != nil {
			c.Forget(name)
			return err
		}
	}
	return nil
}

// Expect also keeps the Events of these objects, which are about to be created. It reads
// no earlier Events, because there are none.
func (c *Cache) Expect(name types.NamespacedName, objects ...diagnosis.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.workload(name)
	w.objects = append(w.objects, c.add(name, w, objects)...)
}

// follow replaces the objects of a workload and returns the new ones.
func (c *Cache) follow(name types.NamespacedName, objects []diagnosis.Object) []diagnosis.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.workload(name)
	added := c.add(name, w, objects)
	for _, o := range w.objects {
		if !slices.Contains(objects, o) {
			c.unfollow(name, o)
		}
	}
	w.objects = slices.Clone(objects)
	return added
}

// workload returns the workload, and creates it if necessary. It needs the lock.
func (c *Cache) workload(name types.NamespacedName) *workload {
	w := c.workloads[name]
	if w == nil {
		w = &workload{events: map[types.UID]diagnosis.Event{}}
		c.workloads[name] = w
	}
	return w
}

// add makes the workload a follower of the objects, and returns the new ones. It needs
// the lock.
func (c *Cache) add(name types.NamespacedName, w *workload, objects []diagnosis.Object) []diagnosis.Object {
	var added []diagnosis.Object
	for _, o := range objects {
		if !slices.Contains(w.objects, o) {
			added = append(added, o)
			key := namespacedObject{name.Namespace, o}
			c.followers[key] = append(c.followers[key], name)
		}
	}
	return added
}

// unfollow needs the lock.
func (c *Cache) unfollow(name types.NamespacedName, o diagnosis.Object) {
	key := namespacedObject{name.Namespace, o}
	left := slices.DeleteFunc(c.followers[key], func(other types.NamespacedName) bool { return other == name })
	if len(left) == 0 {
		delete(c.followers, key)
	} else {
		c.followers[key] = left
	}
}

// list lists the first Events that regard an object. If they are large, it lists fewer.
func (c *Cache) list(ctx context.Context, namespace string, o diagnosis.Object) (*eventsv1.EventList, error) {
	ctx = kube.WithResponseLimit(ctx, maxListedBytes)
	for limit := int64(maxListed); ; limit = max(limit/8, 1) {
		var found eventsv1.EventList
		err := c.reader.List(ctx, &found, client.InNamespace(namespace), client.Limit(limit),
			client.MatchingFields{"regarding.kind": o.Kind, "regarding.name": o.Name})
		if limit == 1 || !errors.Is(err, kube.ErrTooLarge) {
			return &found, err
		}
	}
}

// read reads the Events that regard an object from the API server.
func (c *Cache) read(ctx context.Context, name types.NamespacedName, o diagnosis.Object) error {
	found, err := c.list(ctx, name.Namespace, o)
	if err != nil {
		return fmt.Errorf("list the Events of %s %s: %w", o.Kind, o.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.workloads[name]
	for i := range found.Items {
		event := source.Event(&found.Items[i])
		if w != nil && diagnosis.IsRelevant(event.Type, event.Reason) {
			w.put(&event)
		}
	}
	return nil
}

// Forget removes a workload and its Events.
func (c *Cache) Forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.workloads[name]
	if w == nil {
		return
	}
	for _, o := range w.objects {
		c.unfollow(name, o)
	}
	delete(c.workloads, name)
}

// Events returns the Events of a workload, in no particular order.
func (c *Cache) Events(name types.NamespacedName) []diagnosis.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.workloads[name]
	if w == nil {
		return nil
	}
	var events []diagnosis.Event
	for uid, event := range w.events {
		if c.clock.Since(event.LastSeen) > keepFor {
			delete(w.events, uid)
			continue
		}
		events = append(events, event)
	}
	return events
}

// Observe stores the Events of followed objects. It can get the same occurrence twice.
func (c *Cache) Observe(_ context.Context, occurrences []alarm.Occurrence) {
	for _, name := range c.store(occurrences) {
		c.notify(name)
	}
}

// store stores Events and returns the workloads that they concern.
func (c *Cache) store(occurrences []alarm.Occurrence) []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	var concerned []types.NamespacedName
	for i := range occurrences {
		event := &occurrences[i].Event
		for _, name := range c.followers[regardedObject(event)] {
			c.workloads[name].put(event)
			if !slices.Contains(concerned, name) {
				concerned = append(concerned, name)
			}
		}
	}
	return concerned
}

// regardedObject returns the object that an Event regards. It returns an empty object if
// the diagnosis does not read the Event, or if the Event is in another namespace than the
// object.
func regardedObject(event *alarm.Event) namespacedObject {
	if !diagnosis.IsRelevant(event.Type, event.Reason) || event.Regarding.Namespace != event.Namespace {
		return namespacedObject{}
	}
	return namespacedObject{event.Namespace, diagnosis.Object{Kind: event.Regarding.Kind, Name: event.Regarding.Name}}
}

// put stores an Event. If there are too many, it replaces the oldest one.
func (w *workload) put(event *alarm.Event) {
	uid := types.UID(event.UID)
	if _, known := w.events[uid]; !known && len(w.events) >= maxEvents {
		delete(w.events, w.oldest())
	}
	w.events[uid] = EventOf(event)
}

// EventOf returns the part of an Event that the diagnosis reads.
func EventOf(event *alarm.Event) diagnosis.Event {
	return diagnosis.Event{
		Type: event.Type, Reason: event.Reason, Note: event.Note,
		Regarding: diagnosis.Object{Kind: event.Regarding.Kind, Name: event.Regarding.Name},
		UID:       types.UID(event.Regarding.UID), FieldPath: event.Regarding.FieldPath,
		FirstSeen: event.FirstSeen, LastSeen: event.LastSeen, Count: event.Count,
	}
}

func (w *workload) oldest() types.UID {
	var oldest types.UID
	for uid, event := range w.events {
		other, found := w.events[oldest]
		if !found || cmp.Or(event.LastSeen.Compare(other.LastSeen), cmp.Compare(uid, oldest)) < 0 {
			oldest = uid
		}
	}
	return oldest
}
