// Package journal keeps the latest telling Events that regard the objects of workloads
// which somebody follows, for diagnosis: many causes are told by nothing but Events.
//
// It hears of Events from the one stream that serves alarms too, and asks the API
// server only for what came before it began to follow. What it keeps is bounded: of
// each workload, a few Events. It decides nothing.
package eventcache

import (
	"cmp"
	"context"
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
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	// maxEvents is how many Events of a workload are kept, the latest.
	maxEvents = 32
	// keepFor is how long an Event tells something: as long as the API server keeps it,
	// by default.
	keepFor = time.Hour
	// maxListed is how many Events of an object are read that came before.
	maxListed = 500
)

// object names an object across namespaces.
type namespacedObject struct {
	namespace string
	diagnosis.Object
}

// Journal keeps Events. It is safe for concurrent use.
type Cache struct {
	reader client.Reader
	clock  clock.PassiveClock
	notify func(ctx context.Context, workload types.NamespacedName)

	mu        sync.Mutex
	workloads map[types.NamespacedName]*workload
	// followers are the workloads that an object belongs to: a claim may have several.
	followers map[namespacedObject][]types.NamespacedName
}

// workload is one that is followed.
type workload struct {
	objects []diagnosis.Object
	events  map[types.UID]diagnosis.Event // by the Event's own UID
}

// New returns a Journal that reads what came before from reader, the API server, and
// calls tell when an Event was heard of a workload.
func New(reader client.Reader, clk clock.PassiveClock, tell func(context.Context, types.NamespacedName)) *Cache {
	return &Cache{
		reader: reader, clock: clk, notify: tell,
		workloads: map[types.NamespacedName]*workload{}, followers: map[namespacedObject][]types.NamespacedName{},
	}
}

// Follow has the Events of these objects kept, in place of those of the last call.
// What there is already of an object that was not followed is read first.
func (j *Cache) Follow(ctx context.Context, name types.NamespacedName, objects ...diagnosis.Object) error {
	for _, added := range j.follow(name, objects) {
		if err := j.read(ctx, name, added); err != nil {
			j.Forget(name)
			return err
		}
	}
	return nil
}

// Expect has the Events of objects kept, besides those of the last call, of which
// there can be none yet: they are still to be made.
func (j *Cache) Expect(name types.NamespacedName, objects ...diagnosis.Object) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.workload(name)
	w.objects = append(w.objects, j.add(name, w, objects)...)
}

// follow returns the objects that were not followed before.
func (j *Cache) follow(name types.NamespacedName, objects []diagnosis.Object) []diagnosis.Object {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.workload(name)
	added := j.add(name, w, objects)
	for _, o := range w.objects {
		if !slices.Contains(objects, o) {
			j.unfollow(name, o)
		}
	}
	w.objects = slices.Clone(objects)
	return added
}

// workload needs the lock.
func (j *Cache) workload(name types.NamespacedName) *workload {
	w := j.workloads[name]
	if w == nil {
		w = &workload{events: map[types.UID]diagnosis.Event{}}
		j.workloads[name] = w
	}
	return w
}

// add needs the lock. It returns the objects that the workload did not follow.
func (j *Cache) add(name types.NamespacedName, w *workload, objects []diagnosis.Object) []diagnosis.Object {
	var added []diagnosis.Object
	for _, o := range objects {
		if !slices.Contains(w.objects, o) {
			added = append(added, o)
			key := namespacedObject{name.Namespace, o}
			j.followers[key] = append(j.followers[key], name)
		}
	}
	return added
}

// unfollow needs the lock.
func (j *Cache) unfollow(name types.NamespacedName, o diagnosis.Object) {
	key := namespacedObject{name.Namespace, o}
	left := slices.DeleteFunc(j.followers[key], func(other types.NamespacedName) bool { return other == name })
	if len(left) == 0 {
		delete(j.followers, key)
	} else {
		j.followers[key] = left
	}
}

// read asks the API server for the Events that regard an object.
func (j *Cache) read(ctx context.Context, name types.NamespacedName, o diagnosis.Object) error {
	var found eventsv1.EventList
	err := j.reader.List(ctx, &found, client.InNamespace(name.Namespace), client.Limit(maxListed),
		client.MatchingFields{"regarding.kind": o.Kind, "regarding.name": o.Name})
	if err != nil {
		return fmt.Errorf("list the Events of %s %s: %w", o.Kind, o.Name, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.workloads[name]
	for i := range found.Items {
		event := source.Event(&found.Items[i])
		if w != nil && diagnosis.Reads(event.Type, event.Reason) {
			w.put(&event)
		}
	}
	return nil
}

// Forget lets go of a workload.
func (j *Cache) Forget(name types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.workloads[name]
	if w == nil {
		return
	}
	for _, o := range w.objects {
		j.unfollow(name, o)
	}
	delete(j.workloads, name)
}

// Events returns what is known of a workload, in no particular order.
func (j *Cache) Events(name types.NamespacedName) []diagnosis.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.workloads[name]
	if w == nil {
		return nil
	}
	var events []diagnosis.Event
	for uid, event := range w.events {
		if j.clock.Since(event.LastSeen) > keepFor {
			delete(w.events, uid)
			continue
		}
		events = append(events, event)
	}
	return events
}

// Hear takes note of what happened. The same may be told twice.
func (j *Cache) Observe(ctx context.Context, occurrences []alarm.Occurrence) {
	for _, name := range j.store(occurrences) {
		j.notify(ctx, name)
	}
}

// note returns whom the occurrences concern.
func (j *Cache) store(occurrences []alarm.Occurrence) []types.NamespacedName {
	j.mu.Lock()
	defer j.mu.Unlock()
	var concerned []types.NamespacedName
	for i := range occurrences {
		event := &occurrences[i].Event
		for _, name := range j.followers[regardedObject(event)] {
			j.workloads[name].put(event)
			if !slices.Contains(concerned, name) {
				concerned = append(concerned, name)
			}
		}
	}
	return concerned
}

// regarded returns the object that an Event regards, if the diagnosis reads it and its
// namespace vouches for it.
func regardedObject(event *alarm.Event) namespacedObject {
	if !diagnosis.Reads(event.Type, event.Reason) || event.Regarding.Namespace != event.Namespace {
		return namespacedObject{}
	}
	return namespacedObject{event.Namespace, diagnosis.Object{Kind: event.Regarding.Kind, Name: event.Regarding.Name}}
}

// put keeps an Event, in place of the oldest if there are too many.
func (w *workload) put(event *alarm.Event) {
	uid := types.UID(event.UID)
	if _, known := w.events[uid]; !known && len(w.events) >= maxEvents {
		delete(w.events, w.oldest())
	}
	w.events[uid] = EventOf(event)
}

// Read returns what the diagnosis reads of an Event.
func EventOf(event *alarm.Event) diagnosis.Event {
	return diagnosis.Event{
		Type: event.Type, Reason: event.Reason, Note: event.Note,
		Regarding: diagnosis.Object{Kind: event.Regarding.Kind, Name: event.Regarding.Name},
		UID:       types.UID(event.Regarding.UID), FieldPath: event.Regarding.FieldPath,
		LastSeen: event.LastSeen, Count: event.Count,
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
