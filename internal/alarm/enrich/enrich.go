// Package enrich reads the object that an Event regards: its labels, annotations and
// creation time, and more details of Nodes.
//
// Nodes come from the manager's cache, which is trimmed. For other objects, it reads the
// metadata from the API server, and caches it for some seconds. Memory therefore does not
// grow with the cluster. If an Event can mean that a Pod has a problem, it reads the
// whole Pod. It then keeps only the metadata, and the cause that the diagnosis finds. For
// other kinds, it finds the cause in the Event. If a Warning of a Deployment, ReplicaSet,
// StatefulSet, DaemonSet or Job contains none, it reads the pods of that object. It reads the
// pods of one object at a time. If they cannot be read, the object is known without a cause of
// them. Pods of its namespace are then not read again for a second.
//
// Objects of other kinds are read only for alarms that name their resource, see [Enricher.Named].
//
// A read that fails does not mean that the object is gone: see [Classify]. Such an object,
// and others of its namespace, are not read again for a while. An object that is gone is not
// read again for a second. If it was read within the last minute, it is known as it was then:
// the last Events of an object come after its deletion.
package enrich

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/eventcache"
	"github.com/bongsu-io/bongsu/internal/expiring"
	"github.com/bongsu-io/bongsu/internal/explain"
	"github.com/bongsu-io/bongsu/pkg/diagnosis"
)

const (
	// The cache is small, because the Events of a flood regard few objects.
	maxCachedObjects = 2048
	cacheTTL         = 10 * time.Second

	// lookupTimeout limits one read. An API server with problems must not delay the
	// alarms about them.
	lookupTimeout = 2 * time.Second

	// unreadTTL is how long an object is not read again after a failed read. pauseTTL is how
	// long other objects of its namespace are not read.
	unreadTTL = 10 * time.Second
	pauseTTL  = time.Second

	// goneTTL is how long an object that is gone is not read again, see isGone. It is short,
	// because a restore of etcd brings objects back.
	goneTTL = time.Second
)

// ClusterName returns the default name of a cluster. It is derived from the UID of the
// namespace kube-system.
func ClusterName(uid string) string {
	const length = 8
	return "cluster-" + uid[:min(length, len(uid))]
}

// New returns an Enricher. live reads from the API server.
func New(cluster string, nodes Nodes, live client.Reader) *Enricher {
	return &Enricher{
		cluster: cluster, nodes: nodes, live: live, timeout: lookupTimeout, clock: clock.RealClock{},
		objects: expiring.New[cacheKey, alarm.Object](maxCachedObjects, cacheTTL, clock.RealClock{}),
		summary: expiring.New[struct{}, *diagnosis.Nodes](1, cacheTTL, clock.RealClock{}),
		unread:  expiring.New[alarm.Reference, alarm.Unread](maxCachedObjects, unreadTTL, clock.RealClock{}),
		paused:  expiring.New[string, alarm.Unread](maxCachedObjects, pauseTTL, clock.RealClock{}),
		gone:    expiring.New[alarm.Reference, struct{}](maxCachedObjects, goneTTL, clock.RealClock{}),

		remembered: newRemembered(clock.RealClock{}),
		podsUnread: expiring.New[string, struct{}](maxCachedObjects, pauseTTL, clock.RealClock{}),
		podsTurn:   semaphore.NewWeighted(1),
	}
}

// WithRoots lets causes name why the pods that they blame are as they are.
func (e *Enricher) WithRoots(scheme *runtime.Scheme, mapper meta.RESTMapper) *Enricher {
	e.roots = explain.NewRoots(e.live, e.nodes, scheme, mapper, e.clock, explain.ForMessages())
	return e
}

// Context returns the object that the Event regards, and data about the cluster. After the
// end of ctx, it makes no request.
func (e *Enricher) Context(ctx context.Context, event *alarm.Event) alarm.Context {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	object, err := e.object(ctx, event)
	return e.context(ctx, event, object, err)
}

// context returns the context of an Event with its object, or with the error of reading it.
func (e *Enricher) context(ctx context.Context, event *alarm.Event, object alarm.Object, err error) alarm.Context {
	switch {
	case err != nil:
		object = namesOnly(event.Regarding)
	case object.Cause == "":
		object.Cause = causeIn(event)
	}
	nodes, nodesErr := e.nodes.Count(ctx)
	return alarm.Context{
		Object: object, Resolved: err == nil, ObjectUnread: Classify(err),
		Cluster: alarm.Cluster{Name: e.cluster, Nodes: nodes}, NodesUnread: Classify(nodesErr),
	}
}

// object returns errNoObject if there is no object to read. Any other error is of a read.
func (e *Enricher) object(ctx context.Context, event *alarm.Event) (alarm.Object, error) {
	ref := event.Regarding
	ref.FieldPath = "" // all containers belong to the same object
	kind, ok := kindOf(ref)
	if !ok || !trusted(event) {
		return alarm.Object{}, errNoObject
	}
	if kind.Kind == "Node" {
		node := &corev1.Node{}
		if e.nodes.Get(ctx, objectKey(ref), node) == nil {
			return nodeObject(ref, node)
		}
	}
	return e.read(ctx, cacheKey{Reference: ref, reason: reasonFor(event, kind.Kind)}, func(key *cacheKey) (alarm.Object, error) {
		object, err := e.lookUp(ctx, *key, kind, event)
		if errors.Is(err, errPodsUnread) {
			e.podsUnread.Add(ref.Namespace, struct{}{})
			key.reason, err = withoutPods, nil
		}
		return object, err
	})
}

// reasonFor returns the reason in the cacheKey of the object that an Event regards.
func reasonFor(event *alarm.Event, kind string) string {
	switch {
	case event.Regarding.Kind == "Pod" && mayHaveCause(event):
		note := fnv.New64a()
		_, _ = note.Write([]byte(event.Regarding.FieldPath + " " + event.Note))
		return event.Reason + "?" + strconv.FormatUint(note.Sum64(), 36)
	case needsPods(event, kind):
		return ofPods
	}
	return ""
}

// mayHaveCause reports whether the diagnosis can explain an Event of a Pod. The kubelet
// reports a delayed image pull as a BackOff of type Normal.
func mayHaveCause(event *alarm.Event) bool {
	return event.Type == corev1.EventTypeWarning || event.Reason == "BackOff"
}

func (e *Enricher) lookUp(ctx context.Context, key cacheKey, kind schema.GroupVersionKind, event *alarm.Event) (alarm.Object, error) {
	ref := key.Reference
	switch {
	case kind.Kind == "Node":
		return e.node(ctx, ref)
	case kind.Kind == "Pod" && key.reason != "":
		return e.pod(ctx, ref, event)
	case key.reason == ofPods || key.reason == withoutPods:
		owner, _ := podControllerOf(kind.Kind)
		return e.controller(ctx, ref, key.reason, owner)
	}
	return e.metadataOf(ctx, ref, kind)
}

// metadataOf reads the metadata of an object.
func (e *Enricher) metadataOf(ctx context.Context, ref alarm.Reference, kind schema.GroupVersionKind) (alarm.Object, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	if err := read(ctx, e.live, ref, object); err != nil {
		return alarm.Object{}, err
	}
	if kind.Kind == "Pod" {
		return e.podObject(ctx, ref, object)
	}
	return objectOf(ref, object), nil
}

// pod reads the Pod and diagnoses why it does not run. It does not read the Pod's other Events,
// because there can be many.
func (e *Enricher) pod(ctx context.Context, ref alarm.Reference, event *alarm.Event) (alarm.Object, error) {
	pod := &corev1.Pod{}
	if err := read(ctx, e.live, ref, pod); err != nil {
		return alarm.Object{}, err
	}
	object, err := e.podObject(ctx, ref, pod)
	if err != nil {
		return alarm.Object{}, err
	}
	matched := eventcache.EventOf(event)
	matched.UID = pod.UID // read has compared them; that of a static pod differs
	w := e.workload(ctx, pod)
	w.Events = []diagnosis.Event{matched}
	d := diagnosis.Diagnose(w)
	object.Cause = e.sentenceOf(ctx, pod, w, d.Of(matched.Container()))
	return object, nil
}

// sentenceOf describes a cause of an object, with its root. It returns an empty string if there is none: what is
// still starting, and not late yet, is no failure.
func (e *Enricher) sentenceOf(ctx context.Context, o client.Object, w diagnosis.Workload, cause *diagnosis.Cause) string {
	if cause == nil || !cause.LateAfter.IsZero() {
		return ""
	}
	e.roots.Complete(ctx, o, w, cause)
	return cause.Sentence()
}

// node reads a Node that the cache does not have yet.
func (e *Enricher) node(ctx context.Context, ref alarm.Reference) (alarm.Object, error) {
	node := &corev1.Node{}
	if err := read(ctx, e.live, ref, node); err != nil {
		return alarm.Object{}, err
	}
	return nodeObject(ref, node)
}

// trusted reports whether the Event is in the namespace that Events of the object belong
// to. Otherwise, a tenant could get data about objects of other namespaces. Events of
// objects without a namespace belong to the namespace default.
func trusted(event *alarm.Event) bool {
	if event.Regarding.Namespace == "" {
		return event.Namespace == metav1.NamespaceDefault
	}
	return event.Namespace == event.Regarding.Namespace
}
