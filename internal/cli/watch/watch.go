// Package watch prints the objects of one type, and then each object that is added,
// changed or deleted, in the order of the API server.
//
// An informer caches the objects and survives disconnects. Its callbacks only add
// changes to a queue, and one worker prints them. The items of the queue are changes,
// not keys. So an object that is added and deleted before the worker prints it appears
// as both ADDED and DELETED.
//
// The package never shows a value of a Secret. The informer stores no value either: it
// stores an [Object], which only a redactor creates.
package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Config configures a watch. All fields but OnlyChanges are required.
type Config struct {
	Client dynamic.Interface
	Target Target
	// OnlyChanges leaves out the objects that exist at the start.
	OnlyChanges bool
	// Print prints each change. If it fails, the watch ends.
	Print Printer
	// Status receives the state of the watch itself, such as a lost connection, one line
	// per call.
	Status func(line string)
	// Clock timestamps the changes.
	Clock clock.PassiveClock
}

// Printer prints changes.
type Printer interface {
	Print(c *Change) error
}

// Run watches until the context ends, and then returns nil. It returns an error if it
// cannot watch the target, or cannot print.
func Run(ctx context.Context, config Config) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	// client-go would log the objects.
	running = klog.NewContext(running, logr.Discard())

	w := &watcher{config: config, changes: newBacklog()}
	conn := &connection{config: config, end: end}
	informer, synced, err := w.informer(conn)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	reading.Go(func() { informer.RunWithContext(running) })
	stop := context.AfterFunc(running, w.changes.close)
	defer stop()

	if cache.WaitFor(running, "", synced) {
		conn.established()
		end(w.print(running))
	}
	<-running.Done()
	reading.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// watcher receives the informer's notifications and prints the changes.
type watcher struct {
	config   Config
	existing existing
	changes  *backlog
}

func (w *watcher) informer(conn *connection) (cache.SharedIndexInformer, cache.DoneChecker, error) {
	informer := cache.NewSharedIndexInformerWithOptions(
		newSource(w.config, conn), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{})
	if err := informer.SetTransform(newRedactor().transform); err != nil {
		return nil, nil, err
	}
	// The connection reports failures itself.
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		return nil, nil, err
	}
	registration, err := informer.AddEventHandler(w)
	if err != nil {
		return nil, nil, err
	}
	return informer, registration.HasSyncedChecker(), nil
}

// print prints the objects that exist, and then the changes.
func (w *watcher) print(ctx context.Context) error {
	if err := w.printExisting(ctx); err != nil {
		return err
	}
	for {
		c, ok := w.changes.next()
		if !ok {
			return ctx.Err()
		}
		if err := w.printOne(ctx, c); err != nil {
			return err
		}
	}
}

func (w *watcher) printExisting(ctx context.Context) error {
	existing := w.existing.sorted()
	w.existing = nil // so that the old states can be garbage collected
	w.config.Status(fmt.Sprintf("cache synced: %d %s; watching for changes", len(existing), w.config.Target))
	if w.config.OnlyChanges {
		return nil
	}
	for _, c := range existing {
		if err := w.printOne(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) printOne(ctx context.Context, c *Change) error {
	if err := ctx.Err(); err != nil {
		return err // the watch ends at once, even during a long list
	}
	return w.config.Print.Print(c)
}

var _ cache.ResourceEventHandler = (*watcher)(nil)

// OnAdd implements cache.ResourceEventHandler.
func (w *watcher) OnAdd(o any, existing bool) {
	c := w.change(Added, object(o))
	if c.Existing = existing; existing {
		w.existing = append(w.existing, c)
		return
	}
	w.changes.add(c)
}

// OnUpdate implements cache.ResourceEventHandler. After a disconnect, the informer lists
// the objects and calls OnUpdate for every one of them, even if it has not changed. It
// does the same for an object that was deleted and created again meanwhile.
func (w *watcher) OnUpdate(from, to any) {
	former, present := object(from), object(to)
	switch {
	case former.GetUID() != present.GetUID():
		w.changes.add(w.change(Deleted, former))
		w.changes.add(w.change(Added, present))
	case former.GetResourceVersion() != present.GetResourceVersion():
		c := w.change(Modified, present)
		c.Former = former
		w.changes.add(c)
	}
}

// OnDelete implements cache.ResourceEventHandler. For an object that was deleted during
// a disconnect, it receives a tombstone with the last known state.
func (w *watcher) OnDelete(o any) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	w.changes.add(w.change(Deleted, object(o)))
}

func (w *watcher) change(t Type, o *Object) *Change {
	return &Change{Type: t, Time: w.config.Clock.Now(), Object: o}
}

// object converts an item of the cache, which holds only Objects.
func object(o any) *Object { return o.(*Object) }

// existing are the changes for the objects that exist at the start. The informer
// reports them in no order.
type existing []*Change

func (e existing) sorted() []*Change {
	return slices.SortedFunc(slices.Values(e), func(a, b *Change) int { return strings.Compare(a.Key(), b.Key()) })
}

// Type is the kind of a change.
type Type string

// The types of changes, with the names of the watch protocol.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED"
)

// Change is one change of one object.
type Change struct {
	Type Type
	// Time is when the watch received the change.
	Time time.Time
	// Existing is true for an object that is Added because it existed at the start.
	Existing bool
	// Object is the present state, or the last known state of a Deleted object.
	Object *Object
	// Former is the state before the change. Only Modified has it.
	Former *Object
}

// Key returns NAMESPACE/NAME, or NAME for a cluster-scoped object.
func (c *Change) Key() string { return c.name().String() }

func (c *Change) name() cache.ObjectName { return cache.MetaObjectToName(c.Object) }

// Target selects the objects to watch.
type Target struct {
	Type ResourceType
	// Namespace is empty for all namespaces. It must be empty for a cluster-scoped type.
	Namespace string
	Selector  labels.Selector
}

// String returns a text like "pods in namespace shop with app=web".
func (t Target) String() string {
	s := t.Type.String()
	switch {
	case !t.Type.Namespaced:
	case t.Namespace == metav1.NamespaceAll:
		s += " in all namespaces"
	default:
		s += " in namespace " + t.Namespace
	}
	if !t.Selector.Empty() {
		s += fmt.Sprintf(" with %s", t.Selector)
	}
	return s
}
