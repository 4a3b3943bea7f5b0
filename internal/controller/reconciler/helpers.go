package reconciler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/eventcache"
	"github.com/bongsu-io/bongsu/internal/kube"
	"github.com/bongsu-io/bongsu/pkg/children"
	"github.com/bongsu-io/bongsu/pkg/events"
)

// Concurrent is how many objects of a kind are reconciled at once: they wait for the
// API server most of the time.
const Concurrent = 16

// Upkeep brings about the children of objects of a kind and tells how they fare.
type Helpers struct {
	// Client reads from the caches, Live from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.WithTicker

	Children   *children.Children
	Recorder   *events.Recorder
	EventCache *eventcache.Cache
	// changed names objects to look at again, for what no watch of theirs tells.
	changed chan event.GenericEvent
}

// New returns an Upkeep that reports Events as controller, for example
// "jupyter-controller".
func New(c client.Client, live client.Reader, clk clock.WithTicker, controller string) *Helpers {
	u := &Helpers{
		Client: c, Live: live, Clock: clk,
		Children: children.New(c, live, kube.ChildNames),
		Recorder: events.NewRecorder(c, clk, controller),
		changed:  make(chan event.GenericEvent, 1024),
	}
	u.EventCache = eventcache.New(live, clk, u.Enqueue)
	return u
}

// Hear is to be told of all Events: some tell why a child does not run.
func (u *Helpers) Observe(ctx context.Context, occurrences []alarm.Occurrence) {
	u.EventCache.Observe(ctx, occurrences)
}

// LookAgain has an object reconciled. It waits for a busy controller, but not for one
// that has ended.
func (u *Helpers) Enqueue(ctx context.Context, name types.NamespacedName) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case u.changed <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

// Changes is a source of the objects to look at again.
func (u *Helpers) Changes() source.Source {
	return source.Channel(u.changed, handler.Funcs{GenericFunc: gather})
}

// gatherFor is how long news of an object is gathered: a flood of Events must not keep
// everyone's workers busy with one.
const gatherFor = 300 * time.Millisecond

func gather(_ context.Context, e event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}, gatherFor)
}

// Labelled maps an object to the one that its label says it is part of. Anyone may say
// so: it is only looked at again.
func Labelled(label string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		name := o.GetLabels()[label]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	}
}

// soon is when something is looked at again that the caches do not show yet.
const soon = 200 * time.Millisecond

// Again takes it for no error that something was newer than the cache.
func RequeueOnConflict(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	return reconcile.Result{}, err
}
